"""``reenact show``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from reenact.cli._event_summary import summary
from reenact.format.event import TYPES
from reenact.store.reader import open_recording
from tests.cli.conftest import Run, command
from tests.cli.samples import HOSTILE, begin, fetched, flip, record, record_run
from tests.unit.store.samples import draft

UNSAFE = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\n"}
UNSAFE |= set("\u2028\u2029\u202a\u202e\u2066\u200b\ufeff\U000e0041")


def _rows(text: str) -> list[str]:
    """The lines without the heading, each reduced to what it says."""
    head, *rows = text.splitlines()
    assert head.split() == ["seq", "time", "lane", "type", "size", "what"]
    return rows


def _seqs(text: str) -> list[int]:
    return [int(row.split()[0]) for row in _rows(text)]


def test_table_says_what_each_event_was(run: Run, tmp_path: Path) -> None:
    ran = run("show", record_run(tmp_path / "run"))
    assert (ran.code, ran.err) == (0, "")
    said = [row[53:] for row in _rows(ran.out)]
    assert said == [
        "weather.py --city Bern Is it warm?",
        "example/small-1, call 1, 1 message",
        'example/small-1 stop {"output_tokens": 4}',
        "example/small-1, call 2, 2 messages",
        'example/small-1 stop {"output_tokens": 4}',
        'weather({"city": "Bern"})',
        'ok c1 {"celsius": 21.0}',
        "failed c2 builtins.OSError: no such city",
        "GET https://weather.example/bern -> 200",
        'memory {"warm": true}',
        "ok exit 0 Yes.",
    ]
    http = _rows(ran.out)[8].split()
    assert http[0] == "9"
    assert http[2:6] == ["0.1", "nondeterministic", "68.6", "KiB"]


def _called(op: str, city: str) -> dict[str, Any]:
    """What a boundary around a function writes, without the answer."""
    hashes = {"key": "sha256:0", "valueHash": "sha256:0"}
    return {"source": "network", "op": op, "request": {"city": city}, **hashes}


@pytest.mark.parametrize(
    "outcome, shown",
    [
        ({"response": {"celsius": 21.0}}, ' -> {"celsius": 21.0}'),
        ({"response": None}, " -> null"),
        ({"error": {"class": "builtins.OSError", "message": "no"}}, " -> builtins.OSError: no"),
        ({"cancelled": True}, " -> cancelled"),
        ({"unfinished": True}, " -> unfinished"),
    ],
)
def test_called_functions_show_arguments_and_answer(
    outcome: dict[str, Any], shown: str, run: Run, tmp_path: Path
) -> None:
    path = record(tmp_path / "run", [("nondeterministic", {**_called("look", "Bern"), **outcome})])
    (row,) = _rows(run("show", path, "--width", 0).out)
    assert row[53:] == f'look({{"city": "Bern"}}){shown}'


def test_tape_shows_the_same(run: Run, tmp_path: Path) -> None:
    from_directory = run("show", record_run(tmp_path / "run"))
    from_tape = run("show", record_run(tmp_path / "run.jsonl"))
    assert [row[28:] for row in _rows(from_tape.out)] == [
        row[28:] for row in _rows(from_directory.out)
    ]


def test_one_event_is_shown_whole(run: Run, tmp_path: Path) -> None:
    path = record_run(tmp_path / "run")
    for seq in (4, 9):  # a delta, a blob
        ran = run("show", path, seq)
        assert (ran.code, ran.err) == (0, "")
        with open_recording(path) as source:
            assert json.loads(ran.out) == source.at(seq).to_json()
        assert json.loads(ran.out) == run("show", path, seq, "--json").json()


def test_json_is_one_whole_event_per_line(run: Run, tmp_path: Path) -> None:
    path = record_run(tmp_path / "run")
    ran = run("show", path, "--json")
    with open_recording(path) as source:
        assert ran.json_lines() == [event.to_json() for event in source]


@pytest.mark.parametrize(
    "options, expected",
    [
        (["--type", "tool_call"], [6]),
        (["--type", "tool_call", "--type", "tool_result"], [6, 7, 8]),
        (["--lane", "0.1"], [8, 9]),
        (["--lane", "0.1", "--type", "tool_result"], [8]),
        (["--grep", "no such city"], [8]),
        (["--grep", "Looking it up."], [4]),
        (["--from", "9"], [9, 10, 11]),
        (["--to", "2"], [1, 2]),
        (["--from", "3", "--to", "4"], [3, 4]),
        (["--limit", "2"], [1, 2]),
        (["--type", "llm_request", "--limit", "1"], [2]),
    ],
)
def test_filters(options: list[str], expected: list[int], run: Run, tmp_path: Path) -> None:
    path = record_run(tmp_path / "run")
    assert _seqs(run("show", path, *options).out) == expected
    assert [
        event["seq"] for event in run("show", path, *options, "--json").json_lines()
    ] == expected


def test_grep_finds_text_that_json_writes_with_escapes(run: Run, tmp_path: Path) -> None:
    text = 'a "quoted"\nline of 漢字'
    path = record(tmp_path / "run", [("run_start", {"input": text}), ("run_start", {"input": "x"})])
    assert _seqs(run("show", path, "--grep", text).out) == [1]
    assert _seqs(run("show", path, "--grep", "漢").out) == [1]


def test_fields_of_a_later_version_are_shown(run: Run, tmp_path: Path) -> None:
    with begin(tmp_path / "r") as recording:
        recording.sink.append(draft(data={"n": 1}, extra={"later": [1, 2]}))
    bulk = run("show", str(tmp_path / "r"), "--json").json()
    assert list(bulk)[-2:] == ["later", "data"]
    assert bulk["later"] == [1, 2]
    assert run("show", str(tmp_path / "r"), "1", "--json").json() == bulk


def test_nothing_that_matches_is_said_and_is_no_error(run: Run, tmp_path: Path) -> None:
    ran = run("show", record(tmp_path / "run"), "--type", "tool_cal")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == ("no event matches, of 3\nhint: --type tool_cal: did you mean tool_call?\n")


def test_time_counts_from_the_first_event_of_all(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    with open_recording(path) as source:
        between = source.at(3).ts - source.at(1).ts
    (row,) = _rows(run("show", path, "--from", 3).out)
    assert row.split()[1] == f"{between / 1000:.3f}"


def test_lines_fit_the_width(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run", [("run_start", {"input": "漢字" * 200})])
    (row,) = _rows(run("show", path, "--width", 80).out)
    assert row.endswith("...")
    assert len(row) + row.count("漢") + row.count("字") <= 80
    (whole,) = _rows(run("show", path, "--width", 0).out)
    assert "漢字" * 200 in whole


@pytest.mark.parametrize(
    "kind, data",
    [
        ("run_start", {"input": HOSTILE, "argv": [HOSTILE]}),
        ("run_end", {"status": "ok", "output": HOSTILE, "error": {"class": HOSTILE}}),
        ("tool_call", {"name": HOSTILE, "args": {HOSTILE: HOSTILE}, "callId": HOSTILE}),
        ("tool_result", {"callId": "c", "ok": False, "error": {"class": "E", "message": HOSTILE}}),
        ("state_mutation", {"type": HOSTILE, "details": {HOSTILE: [HOSTILE]}}),
        ("nondeterministic", fetched(HOSTILE, method=HOSTILE, url=HOSTILE)),
        ("nondeterministic", {**_called(HOSTILE, HOSTILE), "response": [HOSTILE]}),
    ],
)
def test_recorded_escapes_never_reach_the_screen(
    kind: str, data: dict[str, object], run: Run, tmp_path: Path
) -> None:
    path = record(tmp_path / "run", [(kind, data)])
    for words in (["--width", 0], ["1"], ["--json"], ["1", "--json"]):
        ran = run("show", path, *words)
        assert ran.code == 0
        assert set(ran.out) & UNSAFE == set(), words
    assert json.loads(run("show", path, 1).out)["data"] == data


def test_events_of_any_shape_have_a_line(run: Run, tmp_path: Path) -> None:
    """The fields of an event are whatever a program wrote there."""
    odd: list[Any] = [None, 7, 1.5, True, "text", ["list"], {"a": {"b": []}}, 10**100]
    names = ("status", "error", "request", "response", "messages", "argv", "usage", "withheld")
    with begin(tmp_path / "run") as recording:
        for value in odd:
            recording.sink.append(draft("x_of_its_own", dict.fromkeys(names, value)))
    assert len(_rows(run("show", tmp_path / "run").out)) == len(odd)
    for kind in TYPES:
        for value in odd:
            assert isinstance(summary(kind, dict.fromkeys(names, value)), str)


def test_a_call_without_an_answer_has_none() -> None:
    asked = {"op": "ask", "source": "network", "request": {"city": "Bern"}}
    assert summary("nondeterministic", asked) == 'ask({"city": "Bern"})'
    answered = summary("nondeterministic", {**asked, "response": None})
    assert answered == 'ask({"city": "Bern"}) -> null'


def test_empty_recording(run: Run, tmp_path: Path) -> None:
    ran = run("show", record(tmp_path / "run", 0))
    assert (ran.code, ran.out, ran.err) == (0, "", "the recording is empty\n")


def test_event_that_is_not_there(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    ran = run("show", path, 4)
    assert (ran.code, ran.out) == (2, "")
    assert "event 4 does not exist" in ran.err
    assert ran.hint == f"reenact show {path}"


def test_one_event_takes_no_filters(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    for words in (["--follow"], ["--type", "run_end"], ["--limit", "1"]):
        assert run("show", path, 1, *words).code == 2


def test_missing_damaged_and_unfinished(run: Run, tmp_path: Path) -> None:
    assert run("show", tmp_path / "none").code == 3
    path = record(tmp_path / "run")
    line = flip(path / "events.jsonl", b"counted")
    ran = run("show", path, "--json")
    assert ran.code == 3
    assert ran.json()["error"]["code"] == "recording.damaged"
    assert ran.json()["error"]["fields"]["place"] == f"events.jsonl line {line}"
    (path / "manifest.json").unlink()
    assert run("show", path).hint == f"reenact recover {path}"


def test_paths_into_a_recording_are_put_right(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    for name in ("events.jsonl", "manifest.json"):
        ran = run("show", path / name)
        assert ran.code == 2
        assert str(path) in ran.hint
    run("pack", path)
    ran = run("show", tmp_path / "run.reenact")
    assert ran.code == 2
    assert ran.hint == f"reenact unpack {tmp_path / 'run.reenact'}"


@pytest.mark.parametrize(
    "environ",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_terminal_that_knows_only_ascii(
    environ: dict[str, str], spawn: Run, tmp_path: Path
) -> None:
    path = record(tmp_path / "run", [("run_start", {"input": "Grüße, 漢字 😀"})])
    ran = spawn("show", path, **environ)
    assert (ran.code, ran.err) == (0, "")
    whole = spawn("show", path, "1", **environ)
    assert whole.out.isascii()
    assert json.loads(whole.out)["data"] == {"input": "Grüße, 漢字 😀"}


def test_reader_that_has_had_enough(tmp_path: Path) -> None:
    path = record(tmp_path / "run", 4000)
    process = subprocess.Popen(
        command("show", path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline().split()[0] == b"seq"
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written(unbuffered: str, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command("show", path),
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            encoding="utf-8",
            timeout=60,
        )
    assert done.returncode == 3
    problem, hint = done.stderr.splitlines()
    assert problem == "reenact: error: reading or writing: No space left on device"
    assert hint.startswith("hint: make room")


# Following

# Does what it is told on stdin, and answers when it is done.
_WRITER = """
import sys
from pathlib import Path
from tests.cli.samples import begin, mutation
recording = begin(Path(sys.argv[1]))
number = 0
print("started", flush=True)
for line in sys.stdin:
    if line == "add\\n":
        number += 1
        recording.add(*mutation(number))
    else:
        recording.finish()
    print("done", flush=True)
"""


class _Writer:
    def __init__(self, path: Path) -> None:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=environ,
        )
        self._answer("started")

    def tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        self._answer("done")

    def _answer(self, expected: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == f"{expected}\n"


@contextmanager
def _writing(path: Path) -> Iterator[_Writer]:
    writer = _Writer(path)
    try:
        yield writer
    finally:
        writer.process.kill()
        writer.process.communicate(timeout=60)


@contextmanager
def _following(path: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    process = subprocess.Popen(
        command("show", path, "--follow", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_follow_shows_what_comes_and_ends_with_the_recording(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with _writing(path) as writer:
        writer.tell("add")
        with _following(path) as (process, out):
            assert out.readline().split()[0] == "seq"
            assert out.readline().split()[0] == "1"
            writer.tell("add")
            assert out.readline().split()[0] == "2"
            writer.tell("finish")
            rest, err = process.communicate(timeout=60)
            assert (process.returncode, rest, err) == (0, "", "")


def test_follow_ends_when_the_writer_is_killed_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with _writing(path) as writer:
        writer.tell("add")
        with _following(path, "--json") as (process, out):
            assert json.loads(out.readline())["seq"] == 1
            writer.process.kill()
            rest, err = process.communicate(timeout=60)
    assert (process.returncode, rest) == (0, "")
    assert err.splitlines()[-1] == f"hint: reenact recover {path}"


def test_follow_can_be_interrupted_quietly(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with _writing(path) as writer:
        writer.tell("add")
        with _following(path) as (process, out):
            out.readline()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (130, "")


def test_follow_stops_at_its_limit_while_the_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with _writing(path) as writer:
        writer.tell("add")
        with _following(path, "--limit", "1", "--json") as (process, _):
            rest, err = process.communicate(timeout=60)
            assert (process.returncode, err) == (0, "")
            assert json.loads(rest)["seq"] == 1


def test_follow_of_a_finished_recording_shows_it(run: Run, tmp_path: Path) -> None:
    path = record(tmp_path / "run")
    assert run("show", path, "--follow").out == run("show", path).out
    assert run("show", tmp_path / "none", "--follow").code == 3
