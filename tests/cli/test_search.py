"""``reenact search``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from reenact.engine.divergence.model import Divergence
from reenact.search.query import clock_time
from reenact.store.recording import Recording
from tests.cli.conftest import Run
from tests.cli.samples import HOSTILE
from tests.snapshots import Snapshot
from tests.unit.search.finding import add, begin, record, tool

CHAT = "https://api.openai.com/v1/chat/completions"
JSON = [["content-type", "application/json"]]


def _http(recording: Recording, url: str, status: int, body: str) -> None:
    request = {"method": "GET", "url": url}
    headers = [*JSON, ["x-request-id", "req_5f3c"]]
    response = {"status": status, "headers": headers, "body": body}
    data = {"source": "network", "op": "GET", "request": request, "response": response}
    add(recording, "nondeterministic", data)


def _talk(recording: Recording, questions: list[str]) -> None:
    """A conversation, which sends all of itself each time."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You know the weather."}]
    for question in questions:
        messages.append({"role": "user", "content": question})
        body = {"model": "gpt-5", "messages": messages}
        request = {"method": "POST", "url": CHAT, "body": body, "type": "json"}
        asked = {"lens": "openai.chat", "provider": "openai", "model": "gpt-5", "request": request}
        seq = add(recording, "llm_request", asked)
        words = f"In {question.rstrip('?')} it is 21 degrees."
        text = f'{{"choices": [{{"message": {{"content": "{words}"}}, "finish_reason": "stop"}}]}}'
        response = {"status": 200, "headers": JSON, "body": text}
        add(recording, "llm_response", {"response": response}, seq)
        messages.append({"role": "assistant", "content": words})


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs; the second has failed."""
    runs = tmp_path / ".reenact" / "runs"
    with begin(runs / "1-monday") as recording:
        add(recording, "run_start", {"argv": ["python", "weather.py", "--city", "Bern"]})
        _talk(recording, ["Bern?", "東京?"])
        tool(recording, "get_weather of Bern")
        _http(recording, "https://weather.example/v1/Bern?day=1", 200, '{"celsius": 21}')
        add(recording, "run_end", {"status": "ok", "exitCode": 0})
    with begin(runs / "2-tuesday") as recording:
        _http(recording, "https://weather.example/v1/Oslo", 503, '{"error": "too many requests"}')
        seq = add(recording, "tool_call", {"name": "book", "args": {"city": "Oslo"}, "callId": "c"})
        error = {"class": "builtins.OSError", "message": "no table", "kind": "failed"}
        add(recording, "tool_result", {"callId": "c", "ok": False, "error": error}, seq)
        argv = {"argv": ["git", "log"]}
        done = {"source": "process", "op": "git", "request": argv, "response": {"exitCode": 1}}
        add(recording, "nondeterministic", done)
        add(recording, "nondeterministic", {"source": "clock", "key": "time.time", "value": 1.0})
        add(recording, "run_end", {"status": "error", "exitCode": 3})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_hits_with_their_words_marked(run: Run, project: Path, snapshot: Snapshot) -> None:
    ran = run("search", "bern")
    assert ran.code == 0
    snapshot("search-hits", ran.out + ran.err)


def test_on_a_narrow_screen(
    run: Run, project: Path, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "44")
    ran = run("search", "degrees")
    snapshot("search-narrow", ran.out)
    assert max(map(len, ran.out.splitlines()[1:])) <= 44


def test_only_the_recordings_or_only_their_number(
    run: Run, project: Path, snapshot: Snapshot
) -> None:
    snapshot("search-runs", run("search", "--runs").out)
    assert run("search", "--count", "bern").out == "4\n"
    assert run("search", "--count", "nowhere").out == "0\n"


def test_divergences_of_reports(run: Run, project: Path, snapshot: Snapshot) -> None:
    divergence = Divergence(
        code="event_payload_mismatch",
        detail="The tool call say asks for something else",
        lane="0",
        event_seq=6,
        hint="record it again",
    )
    report = {"divergences": [divergence.to_json()], "recording": f".reenact/runs/{MONDAY}"}
    file = project / ".reenact" / "reports" / "1.json"
    file.parent.mkdir()
    file.write_text(json.dumps(report), encoding="utf-8")
    ran = run("search", "--diverged")
    assert ran.code == 0
    snapshot("search-diverged", ran.out + ran.err, {clock_time(_written(file)): "CLOCK"})


def _written(file: Path) -> int:
    return int(file.stat().st_mtime * 1000)


def test_nothing_found_is_no_error(run: Run, project: Path) -> None:
    ran = run("search", "nowhere")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"reenact: no hit in 2 recordings under {project / '.reenact'}\n"


MONDAY, TUESDAY = "1-monday", "2-tuesday"


@pytest.mark.parametrize(
    "words,expected",
    [
        ("--type llm", {MONDAY: [2, 4]}),
        ("--type tool --type process", {MONDAY: [6], TUESDAY: [2, 4]}),
        ("--type nondeterministic", {MONDAY: [8], TUESDAY: [1, 4]}),
        ("--model gpt*", {MONDAY: [2, 4]}),
        ("--provider OpenAI --url completions", {MONDAY: [2, 4]}),
        ("--tool book", {TUESDAY: [2]}),
        ("--host weather.example", {MONDAY: [8], TUESDAY: [1]}),
        ("--method get --status 5xx", {TUESDAY: [1]}),
        ("--status 200 --type network", {MONDAY: [8]}),
        ("--status 1", {TUESDAY: [4]}),
        ("--boundary process.exec", {TUESDAY: [4]}),
        ("--error", {TUESDAY: [1, 2, 4, 6]}),
        ("--run failed --tool *", {TUESDAY: [2]}),
        ("--run unfinished", {}),
        ("--lane 0 --type run_end", {MONDAY: [9], TUESDAY: [6]}),
        ("--lane 0.1", {}),
        ("--since 2026-01-01", {}),
        ("--until 1970-01-02 --tool book", {TUESDAY: [2]}),
        ("--diverged", {}),
        ("東京", {MONDAY: [4]}),
        ("'21 degrees' --not tokyo", {MONDAY: [2, 4]}),
        ("degrees --not 東京", {MONDAY: [2]}),
        ("'degrees -Bern'", {MONDAY: [4]}),
        ("weath* --type tool", {MONDAY: [6]}),
        ("req_5f", {MONDAY: [8], TUESDAY: [1]}),
        ("many requests", {TUESDAY: [1]}),
        ("OSError 'no table'", {TUESDAY: [2]}),
        ("weather.example/v1/Os", {TUESDAY: [1]}),
        ("Bern?day=1", {MONDAY: [8]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_asked_for_is_found(
    run: Run, project: Path, words: str, expected: dict[str, list[int]]
) -> None:
    found = run("search", "--json", *shlex.split(words)).json()
    assert {
        Path(one["path"]).name: [hit["seq"] for hit in one["hits"]] for one in found["recordings"]
    } == expected


def test_as_json(run: Run, project: Path) -> None:
    found = run("search", "--json", "warm", "--in", record(project / "r", "lukewarm")).json()
    (recording,) = found["recordings"]
    (hit,) = recording["hits"]
    assert (found["version"], found["total"], found["searched"]) == (1, 1, 1)
    assert (recording["path"], recording["status"], recording["total"]) == ("r", "ok", 1)
    assert (hit["seq"], hit["closed"], hit["type"], hit["name"]) == (1, 2, "tool", "say")
    assert (hit["show"], hit["link"]) == ("reenact show r 1", "#event-1")
    assert hit["texts"] == [
        {
            "role": "arguments",
            "excerpt": "text: lukewarm",
            "marks": [[10, 14]],
            "size": 14,
            "again": 0,
        },
        {"role": "result", "excerpt": "LUKEWARM", "marks": [[4, 8]], "size": 8, "again": 0},
    ]
    assert found["index"]["read"] == 1


def test_a_limit_says_what_it_left_out(run: Run, project: Path, snapshot: Snapshot) -> None:
    ran = run("search", "--limit", 3, "--run", "ok")
    assert len([line for line in ran.out.splitlines() if "00:00:01" in line]) == 3
    snapshot("search-limit", ran.out + ran.err)


def test_the_command_that_it_names_shows_the_event(run: Run, project: Path) -> None:
    line = next(line for line in run("search", "book").err.splitlines() if "look at it" in line)
    shown = run(*shlex.split(line.partition("it: reenact ")[2]), "--json")
    assert shown.json()["data"]["name"] == "book"


def test_a_damaged_recording_is_named(run: Run, project: Path) -> None:
    log = project / ".reenact" / "runs" / MONDAY / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"celsius", b"kelvins"))
    ran = run("search", "Oslo")
    assert ran.code == 0
    assert "2-tuesday" in ran.out
    assert ran.err.startswith("reenact: not searched: events.jsonl line")
    assert [one["path"] for one in run("search", "--json").json()["unreadable"]] == [
        f".reenact/runs/{MONDAY}"
    ]


def test_what_was_recorded_is_shown_and_not_obeyed(spawn: Run, tmp_path: Path) -> None:
    record(tmp_path / "runs" / "bad\x1b[2J", f"find {HOSTILE} grüße 東京")
    user = str(tmp_path / "user")
    ran = spawn(
        "search",
        "find",
        "--in",
        tmp_path,
        LC_ALL="C",
        PYTHONIOENCODING="ascii",
        REENACT_CONFIG_DIR=user,
    )
    assert ran.code == 0
    assert "[find] \\u001b[2J" in ran.out
    assert ran.out.isascii()
    assert ran.err.isascii()
    assert not {"\x1b", "\x07", "\x7f"} & set(ran.out + ran.err)


@pytest.mark.parametrize(
    "words,hint",
    [
        (["--since", "soon"], "yesterday"),
        (["--status", "bad"], "404"),
        (["--diverged", "bern"], "event_missing"),
        ([""], "search for"),
    ],
    ids=["since", "status", "diverged", "nothing"],
)
def test_misuse(run: Run, project: Path, words: list[str], hint: str) -> None:
    ran = run("search", *words)
    assert ran.code == 2
    assert hint in ran.hint


def test_a_place_that_is_not_there(run: Run, project: Path) -> None:
    ran = run("search", "--in", project / "nowhere")
    assert (ran.code, ran.hint) == (3, "check the path")
