"""``reenact explain``."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import reenact
from reenact.errors import DivergenceError
from reenact.runs.reports import (
    REPORTS_VARIABLE,
    delete_last_report,
    load_last_report,
    load_newest_report,
    store_last_report,
)
from tests.cli.conftest import Run
from tests.cli.samples import HOSTILE
from tests.integration.running import Theatre
from tests.snapshots import Snapshot

MODEL = "https://api.openai.com/v1/chat/completions"


class _World(httpx.BaseTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        return httpx.Response(200, json={"choices": []})


def _program(question: str, *, time: str = "2026-11-16T09:12:44Z", **settings: Any) -> None:
    system = {"role": "system", "content": f"You are kind. It is {time}."}
    said = [system, {"role": "user", "content": question}]
    with httpx.Client(transport=_World()) as client:
        client.get("https://shop.example/menu")
        client.post(MODEL, json={"model": "gpt-5", "messages": said, **settings})
        client.get("https://shop.example/bill")


def _diverged(place: Path, question: str = "Warm?", now: str = "Cold?", **settings: Any) -> Any:
    """The report of a replay that asks something else."""
    with reenact.session(capture=place, mode="record"):
        _program(question)
    try:
        with reenact.session(capture=place, mode="replay", strict=True):
            _program(now, **settings)
    except DivergenceError as error:
        return {"version": 1, "divergences": [error.to_json()], "recording": str(place)}
    raise AssertionError("it did not diverge")


def _write(place: Path, report: Any) -> Path:
    place.write_text(json.dumps(report), encoding="utf-8")
    return place


def test_how_it_looks(
    run: Run, tmp_path: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    later = "2026-11-17T10:00:00Z"
    report = _diverged(tmp_path / "c", now="Is it cold?", time=later, temperature=0.5)
    ran = run("explain", _write(tmp_path / "r.json", report))
    assert (ran.code, ran.err) == (0, "")
    snapshot("explain", ran.out)
    ran = run("explain", "r.json", "--width", 52)
    snapshot("explain-narrow", ran.out)
    whole = ("in the policy: ", "mode=", "[-")
    lines = [line for line in ran.out.splitlines() if not any(word in line for word in whole)]
    assert max(map(len, lines)) <= 52


def test_json_has_a_version_and_what_settles_it(run: Run, tmp_path: Path) -> None:
    report = _diverged(tmp_path / "c", now="Warm?", time="2026-11-17T10:00:00Z")
    found = run("explain", _write(tmp_path / "r.json", report), "--json").json()
    assert (found["version"], found["number"], found["of"]) == (1, 1, 1)
    assert [cause["name"] for cause in found["causes"]] == ["clock"]
    assert found["settle"]["policy"] == {"volatile": ["timestamps"]}
    assert [(one["seq"], one["became"]) for one in found["near"]] == [
        (1, "same"),
        (2, "differs"),
        (4, "not"),
    ]
    assert found["divergence"] == report["divergences"][0]


def test_every_form_of_a_divergence_is_taken(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "c"
    report = _diverged(place)
    (one,) = report["divergences"]
    bare = run("explain", _write(tmp_path / "one.json", one))
    assert "names no recording" in bare.err
    assert "around it" not in bare.out
    named = run("explain", tmp_path / "one.json", "--recording", place)
    assert (named.err, "around it" in named.out) == ("", True)
    first = {"recording": str(place), "status": "diverged", "divergence": one}
    groups = {"version": 1, "groups": [{"status": "diverged", "first": first}]}
    assert run("explain", _write(tmp_path / "g.json", groups)).out == named.out
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(report).encode()), "utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("explain", "-").out == named.out
    gone = run("explain", _write(tmp_path / "gone.json", {**report, "recording": "/no/such"}))
    assert (gone.code, "is not there" in gone.err, gone.out) == (0, True, bare.out)


def test_one_of_several(run: Run, tmp_path: Path) -> None:
    report = _diverged(tmp_path / "c")
    report["divergences"] *= 2
    place = _write(tmp_path / "r.json", report)
    assert "1 of 2 divergences" in run("explain", place).err
    assert "2 of 2 divergences" in run("explain", place, "-n", 2).err
    ran = run("explain", place, "-n", 3)
    assert (ran.code, "divergence 3 does not exist" in ran.err) == (2, True)


def test_nothing_to_explain(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".reenact").mkdir()
    monkeypatch.chdir(tmp_path)
    with reenact.session(capture="c", mode="record"):
        _program("Warm?")
    for what, words in (
        ("last", "no replay has diverged here"),
        ("c", "the last replay of c did not diverge"),
        (_write(tmp_path / "ok.json", {"divergences": []}), "nothing diverged there"),
        (_write(tmp_path / "other.json", {"a": 1}), "neither a report"),
        (
            _write(tmp_path / "new.json", {"code": "x", "version": 7}),
            "not a divergence of version 1",
        ),
    ):
        ran = run("explain", what)
        assert (ran.code, ran.out, words in ran.err) == (2, "", True), ran.err
        assert ran.hint
    with reenact.session(tape="t.jsonl", mode="record"):
        _program("Warm?")
    assert "the last replay of t.jsonl did not diverge" in run("explain", "t.jsonl").err
    assert run("explain", "none").code == 3
    (tmp_path / "text").write_text("hello", encoding="utf-8")
    ran = run("explain", "text")
    assert (ran.code, "is no JSON" in ran.err) == (2, True)


def test_what_was_recorded_is_not_obeyed(run: Run, tmp_path: Path) -> None:
    report = _diverged(tmp_path / "c", question=HOSTILE, now=f"{HOSTILE}!")
    ran = run("explain", _write(tmp_path / "r.json", report))
    assert ran.code == 0
    assert not {"\x1b", "\u202e", "\x9b", "\x7f", "\u2028"} & {*ran.out}
    assert "\\u001b" in ran.out


def test_any_locale_will_do(spawn: Run, tmp_path: Path) -> None:
    report = _diverged(tmp_path / "c", question="Zürich?", now="Genève?")
    place = _write(tmp_path / "r.json", report)
    ran = spawn("explain", place, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (ran.code, ran.err) == (0, "")
    assert "Z\\xfcrich" in ran.out


def test_a_recording_that_has_changed_since(run: Run, tmp_path: Path) -> None:
    report = {**_diverged(tmp_path / "c"), "contentHash": "sha256:other"}
    place = _write(tmp_path / "r.json", report)
    assert "has changed since" in run("explain", place).err
    assert run("explain", place, "--json").json()["recordingChanged"] is True


def test_reports_are_kept_and_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert store_last_report(tmp_path, one, {"divergences": [1]})
    assert store_last_report(tmp_path, other, {"divergences": [2]})
    folder = tmp_path / ".reenact" / "reports"
    assert (folder / ".gitignore").read_text() == "*\n"
    assert load_last_report(tmp_path, one)["divergences"] == [1]
    delete_last_report(tmp_path, one)
    assert load_last_report(tmp_path, one) is None
    assert load_newest_report(tmp_path)["recording"] == str(other)
    monkeypatch.setenv(REPORTS_VARIABLE, "off")
    assert not store_last_report(tmp_path, one, {})
    monkeypatch.delenv(REPORTS_VARIABLE)
    for number in range(105):
        assert store_last_report(tmp_path, tmp_path / str(number), {})
    assert len([*folder.glob("*.json")]) == 100
    assert load_newest_report(tmp_path)["recording"] == str(tmp_path / "104")


def test_a_place_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / ".reenact").write_text("a file")
    assert not store_last_report(tmp_path, tmp_path / "one", {})
    delete_last_report(tmp_path, tmp_path / "one")
    assert load_newest_report(tmp_path) is None


AGENT = """
    import sys
    from ask import ask
    from pathlib import Path
    word = Path("word.txt").read_text()
    print(ask("/json?one"))
    print(ask("/json", '{"password": "hunter2-and-more", "question": "' + word + '"}'))
"""


def test_a_replay_that_diverges_can_be_explained_and_settled(theatre: Theatre) -> None:
    """Whole: recorded, changed, replayed, explained, settled by what it says, replayed."""
    folder = theatre.folder
    command = ("--", sys.executable, "agent.py")
    theatre.write("agent.py", AGENT)
    (folder / "word.txt").write_text("warm at 2026-11-16T09:12:44Z")
    assert theatre.run("--capture", "c", *command).code == 0
    (folder / "word.txt").write_text("warm at 2026-11-17T08:00:00Z")
    ran = theatre.run("--replay", "c", *command)
    assert ran.code == 1
    assert ran.err.splitlines()[-2].endswith("reenact explain last")
    (kept,) = (folder / ".reenact" / "reports").glob("*.json")
    report = json.loads(kept.read_bytes())
    assert b"hunter2" not in kept.read_bytes()
    assert report["recording"] == str((folder / "c").resolve())
    assert {"python", "platform", "reenact"} == {*report["environment"]}
    before = os.getcwd()
    os.chdir(folder)
    try:
        from reenact.cli.main import main

        assert main(["explain", "last", "--json"]) == 0
        assert main(["explain", "c"]) == 0
        assert main(["policy", "init"]) == 0
        place = folder / ".reenact" / "policies" / "default.policy.json"
        policy = {**json.loads(place.read_bytes()), "volatile": ["timestamps"]}
        place.write_text(json.dumps(policy))
        assert main(["policy", "pin"]) == 0
    finally:
        os.chdir(before)
    settled = theatre.run("--replay", "c", *command)
    assert (settled.code, "explain" in settled.err) == (0, False)
    assert not kept.exists()
