"""``reenact show --timeline``."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reenact.cli._output import screen_of
from reenact.diff.terminal_text import cell_width
from tests.cli.conftest import Run, command
from tests.cli.samples import HOSTILE, begin, fetched, record, record_timed
from tests.snapshots import Snapshot
from tests.unit.store.samples import NOW, draft, start_sink


class _Terminal(io.StringIO):
    """``encoding`` is that of what it can show."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def _report(path: Path, *divergences: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"version": 1, "divergences": list(divergences)}), encoding="utf-8")
    return path


def _divergence(seq: int | None, lane: str) -> dict[str, Any]:
    gap = {"path": "$.request.url", "jsonPath": "$['request']['url']", "kind": "changed"}
    found = {
        "version": 1,
        "code": "event_payload_mismatch" if seq else "event_unexpected",
        "detail": "another request",
        "lane": lane,
        "paths": [{**gap, "expected": "a", "observed": "b"}] if seq else [],
    }
    return {**found, **({"eventSeq": seq} if seq else {})}


def test_how_it_looks_in_plain_text(run: Run, tmp_path: Path, snapshot: Snapshot) -> None:
    path = record_timed(tmp_path / "run")
    report = _report(tmp_path / "r.json", _divergence(5, "0.1"), _divergence(None, "0.2"))
    ran = run("show", path, "--timeline", "--width", 100, "--report", report)
    assert (ran.code, ran.err) == (0, "")
    assert max(map(cell_width, ran.out.splitlines()[1:])) <= 100
    snapshot("timeline", ran.out, {str(tmp_path): "FOLDER"}, exact=True)


@pytest.mark.parametrize("colour", [True, False])
def test_how_it_looks_at_a_terminal(
    colour: bool, run: Run, tmp_path: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record_timed(tmp_path / "run")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "" if colour else "1")
    out = _Terminal()
    monkeypatch.setattr("sys.stdout", out)
    assert run("show", path, "--timeline", "--width", 100).code == 0
    text = out.getvalue().replace("\x1b", "ESC")
    assert ("ESC" in text) is colour
    name = "timeline-colours" if colour else "timeline-blocks"
    snapshot(name, text, {str(tmp_path): "FOLDER"}, exact=True)


def test_what_a_screen_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert screen_of(_Terminal()) == (True, True, "utf-8")
    poor = _Terminal()
    poor.encoding = "ascii"
    assert screen_of(poor) == (False, True, "ascii")
    assert screen_of(io.StringIO())[:2] == (False, False)
    monkeypatch.setenv("TERM", "dumb")
    assert screen_of(_Terminal())[:2] == (False, False)


def test_as_json(run: Run, tmp_path: Path) -> None:
    path = record_timed(tmp_path / "run")
    report = _report(tmp_path / "r.json", _divergence(3, "0"))
    found = run("show", path, "--timeline", "--json", "--report", report).json()
    assert (found["version"], found["start"], found["spanMs"]) == (1, NOW, 2400)
    assert found["lanes"][-1] == {"lane": "0.3", "parent": "0", "calls": 2}
    assert found["calls"][0] == {
        "seq": 2,
        "closed": 3,
        "lane": "0",
        "kind": "llm",
        "label": "small-1",
        "start": 50,
        "end": 650,
        "state": "done",
        "timed": True,
        "diverged": True,
    }
    states = {call["seq"]: call["state"] for call in found["calls"]}
    assert [states[seq] for seq in (9, 10, 17)] == ["failed", "cut", "open"]
    assert [one["code"] for one in found["divergences"]] == ["event_payload_mismatch"]


@pytest.mark.parametrize(
    "options, seqs",
    [
        (["--lane", "0.2"], [7, 9]),
        (["--type", "tool_result"], [4]),
        (["--from", "8", "--to", "9"], [8, 9]),
        (["--grep", "bern"], [5]),
        (["--limit", "2"], [2, 4]),
        (["--type", "run_end"], []),
    ],
)
def test_filters(options: list[str], seqs: list[int], run: Run, tmp_path: Path) -> None:
    path = record_timed(tmp_path / "run")
    ran = run("show", path, "--timeline", *options, "--json")
    assert sorted(call["seq"] for call in ran.json()["calls"]) == seqs
    said = run("show", path, "--timeline", *options)
    if seqs:
        assert f": {len(seqs)} of 14 calls in " in said.out.splitlines()[0]
    else:
        assert (said.out, said.err) == ("", "no call matches, in 18 events\n")


def test_tape_shows_the_same(run: Run, tmp_path: Path) -> None:
    one = run("show", record_timed(tmp_path / "run"), "--timeline").out
    other = run("show", record_timed(tmp_path / "run.jsonl"), "--timeline").out
    assert one.splitlines()[1:] == other.splitlines()[1:]


def test_without_times(run: Run, tmp_path: Path, snapshot: Snapshot) -> None:
    """As in recordings that were imported."""
    sink = start_sink(tmp_path / "run")
    for lane in ("0", "0", "0.1", "0"):
        sink.append(draft("nondeterministic", fetched("x"), lane=lane))
    sink.finalize()
    ran = run("show", tmp_path / "run", "--timeline", "--width", 100)
    assert (ran.code, ran.err) == (0, "")
    snapshot("timeline-untimed", ran.out, {str(tmp_path): "FOLDER"}, exact=True)


def test_many_lanes_and_a_long_wait(run: Run, tmp_path: Path, snapshot: Snapshot) -> None:
    sink = start_sink(tmp_path / "run")
    for number in range(1, 121):
        ts = NOW + 20 * number + (7_200_000 if number > 60 else 0)
        call = {**fetched("x"), "timing": {"offsets": [10 + number * 7 % 50]}}
        failed = {"response": {"status": 500}} if number == 77 else {}
        sink.append(draft("nondeterministic", {**call, **failed}, ts=ts, lane=f"0.{number}"))
    sink.finalize()
    ran = run("show", tmp_path / "run", "--timeline", "--width", 100)
    assert ran.out.count("\n") < 60
    snapshot("timeline-folded", ran.out, {str(tmp_path): "FOLDER"}, exact=True)


def test_names_of_any_letters_keep_the_columns(run: Run, tmp_path: Path) -> None:
    names = ["東京の天気を見る", "😀😀😀😀", "e\u0301" * 12, "ก\u0e34" * 9, HOSTILE]
    sink = start_sink(tmp_path / "run")
    for place, name in enumerate(names):
        given = {"name": name, "args": {}, "callId": str(place)}
        opened = {"ts": NOW + 100 * place, "lane": f"0.{place + 1}"}
        sink.append(draft("tool_call", given, **opened))
        sink.append(draft("tool_result", {"callId": str(place), "ok": True}, **opened))
    sink.append(draft("run_end", {"status": "ok"}, ts=NOW + 1000))
    sink.finalize()
    for width in (40, 100, 101):
        out = run("show", tmp_path / "run", "--timeline", "--width", width).out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert max(map(cell_width, out.splitlines()[1:])) <= width


def test_lanes_of_any_depth_and_screens_of_any_width(run: Run, tmp_path: Path) -> None:
    sink = start_sink(tmp_path / "run")
    for depth in (0, 1, 5, 12, 300):
        sink.append(draft("state_mutation", {"type": "x"}, lane="0" + ".1" * depth))
    sink.finalize()
    for width in (0, 1, 50, 1000):
        ran = run("show", tmp_path / "run", "--timeline", "--width", width)
        assert (ran.code, ran.err) == (0, "")
        lanes = [line[: line.index(" 1 ")].strip() for line in ran.out.splitlines()[2:7]]
        assert lanes[0] == "0"
        assert all(lane.endswith(".1") for lane in lanes[1:])


def test_a_call_that_never_ended_and_odd_shapes(run: Run, tmp_path: Path) -> None:
    odd: list[Any] = [None, 7, "text", ["list"], {"offsets": ["x"]}, {"offsets": [-5]}, 10**100]
    names = ("request", "response", "timing", "error", "ended", "ok", "name", "op")
    sink = start_sink(tmp_path / "run")
    for place, value in enumerate(odd):
        for kind in ("nondeterministic", "tool_call", "llm_request", "state_mutation"):
            sink.append(draft(kind, dict.fromkeys(names, value), ts=NOW + place * 10**9))
    sink.finalize()
    ran = run("show", tmp_path / "run", "--timeline")
    assert (ran.code, ran.err) == (0, "")
    assert "> never completed" in ran.out


def test_nothing_to_show(run: Run, tmp_path: Path) -> None:
    ran = run("show", record(tmp_path / "run", 0), "--timeline")
    assert (ran.code, ran.out, ran.err) == (0, "", "no call matches, in 0 events\n")
    found = run("show", tmp_path / "run", "--timeline", "--json").json()
    assert (found["spanMs"], found["calls"], found["lanes"]) == (0, [], [])


def test_what_it_does_not_go_with(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    for words in (["--follow"], ["1"]):
        ran = run("show", path, *words, "--timeline")
        assert ran.code == 2
        assert ran.hint.startswith("reenact show ")
    ran = run("show", path, "--report", tmp_path / "r.json")
    assert (ran.code, ran.hint) == (2, "add --timeline, or leave it out")
    ran = run("show", path, "--timeline", "--report", tmp_path / "r.json")
    assert ran.code == 2
    assert "is not a report" in ran.err


def test_an_unfinished_recording_is_not_drawn(run: Run, tmp_path: Path) -> None:
    begin(tmp_path / "run").add("run_start", {"input": "x"})
    ran = run("show", tmp_path / "run", "--timeline")
    assert ran.code == 3
    assert "still being recorded" in ran.err


def test_screen_that_knows_only_ascii(tmp_path: Path) -> None:
    path = record_timed(tmp_path / "run")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "COLUMNS": "100"}
    done = subprocess.run(
        command("show", path, "--timeline"),
        capture_output=True,
        env={**os.environ, **locale},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    assert max(map(len, done.stdout.splitlines()[1:])) <= 100
