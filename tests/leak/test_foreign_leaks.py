"""Secrets in foreign files: none in the tape, in what is said, in the report, in an export."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from reenact.cli.main import main
from reenact.interop.rrbin import write as write_rrbin
from reenact.rr import Entry
from tests.leak.places import FREE
from tests.leak.planted import SHAPES, Plant, plant_shape
from tests.leak.search import Planted, decoded, leaks
from tests.unit.interop.mitmproxy_flows import REQUEST, RESPONSE, flow, packed

KINDS = sorted(SHAPES)[:12]
PLACES = ("url", "header", "cookie", "posted", "answer", "binary", "name")


def _plants() -> dict[str, Plant]:
    """One secret for each place, of different shapes."""
    return {place: plant_shape(KINDS[at % len(KINDS)], place) for at, place in enumerate(PLACES)}


def _vcr(text: dict[str, str]) -> bytes:
    interaction: dict[str, Any] = {
        "request": {
            "method": "POST",
            "uri": f"https://a.example/x?api_key={text['url']}",
            "headers": {"Authorization": [f"Bearer {text['header']}"], "Cookie": [text["cookie"]]},
            "body": json.dumps({"password": text["posted"]}),
        },
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": {"Set-Cookie": [f"sid={text['cookie']}"], text["name"][:20]: ["x"]},
            "body": {"string": f'{{"said": "{text["answer"]}"}}'},
        },
    }
    coded = {
        **interaction["response"],
        "body": {"base64_string": b64encode(b"\xff " + text["binary"].encode()).decode()},
    }
    interactions = [interaction, {**interaction, "response": coded}]
    return json.dumps({"version": 1, "interactions": interactions}).encode()


def _har(text: dict[str, str]) -> bytes:
    entry = {
        "request": {
            "method": "POST",
            "url": f"https://a.example/x?api_key={text['url']}",
            "headers": [{"name": "Authorization", "value": f"Bearer {text['header']}"}],
            "cookies": [{"name": "sid", "value": text["cookie"]}],
            "postData": {
                "mimeType": "application/x-www-form-urlencoded",
                "params": [{"name": "password", "value": text["posted"]}],
            },
        },
        "response": {
            "status": 200,
            "statusText": "OK",
            "headers": [{"name": "Set-Cookie", "value": f"sid={text['cookie']}"}],
            "content": {"size": 1, "text": text["answer"]},
        },
    }
    return json.dumps({"log": {"version": "1.2", "entries": [entry]}}).encode()


def _boruna(text: dict[str, str]) -> bytes:
    one = {
        "method": "POST",
        "url": f"https://a.example/?token={text['url']}",
        "request_body": text["posted"],
        "response_body": text["answer"],
    }
    return json.dumps({"format_version": 1, "transactions": [one]}).encode()


def _rrbin(text: dict[str, str]) -> bytes:
    entries = [
        Entry(kind="http", op="get", key=f"a {text['url']}".encode(), resp=text["answer"].encode()),
        Entry(kind="http", op="get", key=text["name"].encode(), req=text["posted"].encode()),
        Entry(kind="http", op="get", key=b"k", resp=b"\xff " + text["binary"].encode()),
    ]
    return write_rrbin(entries).content


def _mitm(text: dict[str, str]) -> bytes:
    asked = {
        **REQUEST,
        "path": f"/x?api_key={text['url']}".encode(),
        "headers": [[b"Authorization", f"Bearer {text['header']}".encode()]],
        "content": text["posted"].encode(),
    }
    answer = {**RESPONSE, "content": text["answer"].encode()}
    return packed(flow(request=asked, response=answer))


FILES: dict[str, Any] = {
    "a.yaml": _vcr,
    "a.json": _vcr,
    "a.har": _har,
    "boruna.json": _boruna,
    "a.rrbin": _rrbin,
    "a.mitm": _mitm,
}


@pytest.mark.parametrize("name", FILES)
def test_an_import_holds_no_secret(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    plants = _plants()
    planted = [Planted(place, None, (plant,)) for place, plant in plants.items()]  # type: ignore[arg-type]
    content = FILES[name]({place: plant.text for place, plant in plants.items()})
    (tmp_path / name).write_bytes(content)
    assert leaks(content + b"\n".join(decoded(content)), planted), "the search is blind"
    out = tmp_path / "out"
    out.mkdir()
    tape = out / "t.jsonl"
    assert main(["import", str(tmp_path / name), "-o", str(tape), "--json"]) == 0
    said = capfd.readouterr()
    assert json.loads(said.out)["hidden"] > 0
    for file in ("x.har", "x.yaml", "x.rrbin"):
        assert main(["export", str(tape), str(out / file)]) == 0
    later = capfd.readouterr()
    written = b"\n".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    everything = written + (said.out + said.err + later.out + later.err).encode()
    assert leaks(everything + b"\n".join(decoded(everything)), planted) == []


@pytest.mark.parametrize("place", ["text", "in a sentence", "nested", "in JSON in a string"])
def test_an_error_quotes_nothing_of_the_file(
    place: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A broken file is refused with the place, and without what stands there."""
    plant = plant_shape(KINDS[0], place)
    text = json.dumps(FREE[place](plant.text))
    broken = {
        "a.yaml": f"a: !!python/object:{text} {{}}\nb: [\n",
        "b.yaml": f"interactions: [{text}]\n",
        "c.yaml": f"? {text}\n  - : ]]\n",
        "a.json": f'{{"version": {text}, "interactions": [{text}]}}',
        "b.json": f'{{"format_version": 1, "transactions": [{text}]}}',
        "c.json": f'{{"interactions": [{{"request": {text}, {text}: 1',
        "a.har": f'{{"log": {{"entries": [{text}]}}}}',
        "a.rrbin": text,
        "a.mitm": text,
    }
    for name, content in broken.items():
        (tmp_path / name).write_text(content, "utf-8")
        assert main(["import", str(tmp_path / name), "--json"]) == 3, name
    said = capfd.readouterr()
    planted = [Planted(place, None, (plant,))]  # type: ignore[arg-type]
    assert leaks((said.out + said.err).encode(), planted) == []
