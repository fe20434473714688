"""What real vcrpy has recorded, imported and replayed, with the clients that recorded it."""

from __future__ import annotations

from pathlib import Path

import pytest
import vcr

import reenact
from reenact.cli.main import main
from reenact.errors import DivergenceError
from reenact.interop.formats import format_named
from reenact.interop.importer import jobs, move
from reenact.policy.model import DEFAULT, Ignore, Pinned
from tests.interop.serving import CLIENTS, REQUESTS, Asker, serving

SETTINGS: dict[str, dict[str, bool]] = {
    "as it comes": {},
    "decoded": {"decode_compressed_response": True},
}


def _imported(cassette: Path) -> Path:
    (job,) = jobs(cassette, None, format_named("vcr"))
    moved = move(job, Pinned.of(DEFAULT))
    assert moved.status == "imported", moved
    assert moved.calls == len(REQUESTS)
    return moved.target


def _record(ask: Asker, cassette: Path, **settings: bool) -> tuple[str, list[object]]:
    with serving() as server:
        with vcr.VCR(record_mode="once", **settings).use_cassette(str(cassette)):
            answers = [ask(method, server.url + path, body) for method, path, body in REQUESTS]
        assert server.asked == len(REQUESTS)
    return server.url, list(answers)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("client", CLIENTS)
def test_an_imported_cassette_replays(client: str, settings: str, tmp_path: Path) -> None:
    ask = CLIENTS[client]
    url, recorded = _record(ask, tmp_path / "c.yaml", **SETTINGS[settings])
    tape = _imported(tmp_path / "c.yaml")
    with reenact.session(tape=tape, match="lookup", strict=True, root=tmp_path):
        replayed = [ask(method, url + path, body) for method, path, body in REQUESTS]
    assert replayed == recorded
    with reenact.session(tape=tape, strict=True, root=tmp_path):  # in its order, by lane
        again = [ask(method, url + path, body) for method, path, body in REQUESTS]
    assert again == recorded


def test_a_look_up_finds_calls_in_any_order_and_by_any_client(tmp_path: Path) -> None:
    url, recorded = _record(CLIENTS["requests"], tmp_path / "c.yaml")
    tape = _imported(tmp_path / "c.yaml")
    # The two that are alike answer in their order; everything else is found wherever it stands.
    order = [6, 5, 4, 3, 2, 1, 0, 7]
    with reenact.session(tape=tape, match="lookup", strict=True, root=tmp_path):
        for place in order:
            method, path, body = REQUESTS[place]
            assert CLIENTS["httpx"](method, url + path, body) == recorded[place]


def test_another_body_is_another_call_unless_bodies_are_ignored(tmp_path: Path) -> None:
    url, recorded = _record(CLIENTS["requests"], tmp_path / "c.yaml")
    tape = _imported(tmp_path / "c.yaml")
    ask, changed = CLIENTS["requests"], {"prompt": "changed"}
    with (
        pytest.raises(DivergenceError),
        reenact.session(tape=tape, match="lookup", strict=True, root=tmp_path),
    ):
        ask("POST", f"{url}/echo", changed)
    body = Ignore(paths=("$.request.body", "$.request.type"))
    with reenact.session(
        tape=tape, match="lookup", ignore=body, strict=True, unused="allow", root=tmp_path
    ):
        assert ask("POST", f"{url}/echo", changed) == recorded[1]
        assert ask("POST", f"{url}/echo", changed) == recorded[2]


def test_a_json_cassette_replays(tmp_path: Path) -> None:
    """vcrpy's JSON serializer holds text only."""
    with serving() as server, vcr.VCR(serializer="json").use_cassette(str(tmp_path / "c.json")):
        recorded = CLIENTS["requests"]("POST", f"{server.url}/echo", {"a": "é"})
    (job,) = jobs(tmp_path / "c.json", tmp_path / "t.jsonl", format_named("vcr"))
    assert move(job, Pinned.of(DEFAULT)).format == "vcr-json"
    with reenact.session(tape=tmp_path / "t.jsonl", strict=True, root=tmp_path):
        assert CLIENTS["httpx"]("POST", f"{server.url}/echo", {"a": "é"}) == recorded


def test_what_we_write_real_vcrpy_plays(tmp_path: Path) -> None:
    ask = CLIENTS["requests"]
    recording = reenact.session(tape=tmp_path / "t.jsonl", mode="record", root=tmp_path)
    with serving() as server, recording:
        recorded = [ask(method, server.url + path, body) for method, path, body in REQUESTS]
    assert main(["export", str(tmp_path / "t.jsonl"), str(tmp_path / "c.yaml")]) == 0
    player = vcr.VCR(record_mode="none", match_on=["method", "uri", "body"])
    with player.use_cassette(str(tmp_path / "c.yaml")) as cassette:
        played = [ask(method, server.url + path, body) for method, path, body in REQUESTS]
        assert cassette.all_played
    assert [(status, body) for status, _, body in played] == [
        (status, body) for status, _, body in recorded
    ]
