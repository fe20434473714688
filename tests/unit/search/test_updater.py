"""The index follows the recordings: new, grown, changed, damaged, gone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from reenact.errors import RecordingMissing
from reenact.search.search import Query, Run, search
from tests.unit.search.finding import Project, add, begin, hits, record, tool


def _snapshot(folder: Path) -> dict[Path, tuple[int, int]]:
    files = (one for one in folder.rglob("*"))
    return {one: (one.stat().st_mtime_ns, one.stat().st_size) for one in files}


def test_new_recordings_are_found_and_what_is_known_is_not_read_again(project: Project) -> None:
    record(project.runs / "a", "lukewarm", "cold")
    before = _snapshot(project.runs)
    first = project.ask("warm")
    assert hits(first) == [("a", 1)]
    assert (first.progress.read, first.progress.events) == (1, 4)
    assert _snapshot(project.runs) == before
    record(project.runs / "b", "warm")
    second = project.ask("warm")
    assert sorted(hits(second)) == [("a", 1), ("b", 1)]
    assert second.progress.read == 1
    assert project.ask("warm").progress.read == 0
    assert not project.said


def test_any_character_may_stand_before_a_word(project: Project) -> None:
    record(project.runs / "a", "\0 warm", "\x1b\ufffe\U0010ffff warm")
    assert project.found("warm") == [("a", 1), ("a", 3)]


def test_newest_recordings_come_first_and_calls_in_their_order(project: Project) -> None:
    for name in ("one", "two"):
        record(project.runs / name, "x warm", "y warm")
    first, second = project.ask("warm").matches.runs
    assert first.created >= second.created
    assert [hit.seq for hit in first.hits] == [1, 3]


def test_what_is_gone_is_gone(project: Project) -> None:
    record(project.runs / "a", "warm alone")
    record(project.runs / "b", "warm")
    project.ask()
    shutil.rmtree(project.runs / "a")
    result = project.ask("warm")
    assert (hits(result), result.progress.removed) == ([("b", 1)], 1)
    assert project.found("alone") == []


def test_what_was_replaced_is_read_again(project: Project) -> None:
    record(project.runs / "a", "warm")
    project.ask()
    shutil.rmtree(project.runs / "a")
    record(project.runs / "a", "cold")
    assert project.found("warm") == []
    assert project.found("cold") == [("a", 1)]


def test_what_was_only_touched_is_not_read_again(project: Project) -> None:
    record(project.runs / "a", "warm")
    project.ask()
    os.utime(project.runs / "a" / "manifest.json", (1, 1))
    result = project.ask("warm")
    assert (hits(result), result.progress.events) == ([("a", 1)], 0)
    assert project.ask().progress.read == 0


def test_a_project_that_was_moved_keeps_its_index(project: Project) -> None:
    record(project.runs / "a", "warm")
    project.ask()
    project.root = project.root.rename(project.root.with_name("moved"))
    result = project.ask("warm")
    assert (hits(result), result.progress.read) == ([("a", 1)], 0)


def test_a_recording_that_is_being_made_is_read_as_it_grows(project: Project) -> None:
    with begin(project.runs / "a") as recording:
        tool(recording, "first")
        tool(recording, "open", answered=False)
        first = project.ask("first")
        assert [run.status for run in first.matches.runs] == ["unfinished"]
        add(recording, "tool_result", {"ok": True, "result": "late"}, 3)
        tool(recording, "second")
        second = project.ask("late")
        assert hits(second) == [("a", 3)]
        assert second.progress.events == 3
        assert project.found("second") == [("a", 5)]
    run = _only(project.ask("second").matches.runs)
    assert (run.status, [hit.seq for hit in run.hits]) == ("ok", [5])


def _only(runs: list[Run]) -> Run:
    (run,) = runs
    return run


def test_a_torn_line_is_left_for_later(project: Project) -> None:
    record(project.runs / "a", "whole")
    (project.runs / "a" / "manifest.json").unlink()
    with (project.runs / "a" / "events.jsonl").open("ab") as log:
        log.write(b'{"version":1,"captureId"')
    assert project.found("whole") == [("a", 1)]


def test_a_tape_and_one_that_is_being_made(project: Project) -> None:
    tape = project.root / ".reenact" / "cassettes" / "t.jsonl"
    with begin(tape) as recording:
        tool(recording, "warm")
        assert project.found("warm") == [("t.jsonl.part", 1)]
    assert project.found("warm") == [("t.jsonl", 1)]


def test_other_files_of_lines_are_no_recordings(project: Project) -> None:
    (project.root / ".reenact" / "log.jsonl").write_text('{"text": "warm"}\n', encoding="utf-8")
    result = project.ask("warm")
    assert (result.matches.total, result.unreadable, result.progress.read) == (0, [], 1)
    assert project.ask("warm").progress.read == 0


def test_a_damaged_recording_is_named_and_does_not_stop_the_search(project: Project) -> None:
    record(project.runs / "good", "warm")
    bad = record(project.runs / "bad", "warm")
    project.ask()
    log = bad / "events.jsonl"
    log.write_bytes(log.read_bytes().replace(b"warm", b"ward"))
    for _ in range(2):
        result = project.ask("war")
        assert hits(result) == [("good", 1)]
        assert [one.path.name for one in result.unreadable] == ["bad"]
    log.write_bytes(log.read_bytes().replace(b"ward", b"warm"))
    assert sorted(project.found("warm")) == [("bad", 1), ("good", 1)]
    (bad / "events.jsonl").unlink()
    assert [one.path.name for one in project.ask().unreadable] == ["bad"]


def test_places_are_searched_one_by_one_and_keep_what_is_known_elsewhere(project: Project) -> None:
    record(project.runs / "a", "warm")
    record(project.root / "elsewhere" / "b", "warm")
    assert project.found("warm") == [("a", 1)]

    def ask(place: Path) -> int:
        result = search(project.root, [place], Query(), environ=project.environ, notify=project.say)
        return result.progress.read

    assert [ask(project.root / "elsewhere"), ask(project.root / "elsewhere" / "b")] == [1, 0]
    assert project.ask().progress.read == 0
    with pytest.raises(RecordingMissing, match="nothing at"):
        ask(project.root / "nowhere")


def test_a_conversation_is_found_where_something_was_said_first(project: Project) -> None:
    messages: list[dict[str, str]] = []
    with begin(project.runs / "a") as recording:
        for number in range(4):
            messages.append({"role": "user", "content": f"question {number}"})
            seq = add(
                recording,
                "llm_request",
                {
                    "lens": "openai.chat",
                    "provider": "openai",
                    "model": "gpt-5",
                    "request": {
                        "method": "POST",
                        "url": "https://api.openai.com/v1/chat/completions",
                        "body": {"model": "gpt-5", "messages": messages},
                        "type": "json",
                    },
                },
            )
            body = f'{{"choices": [{{"message": {{"content": "answer {number}"}}}}]}}'
            response = {
                "status": 200,
                "headers": [["content-type", "application/json"]],
                "body": body,
            }
            add(recording, "llm_response", {"response": response}, seq)
            messages.append({"role": "assistant", "content": f"answer {number}"})
    (run,) = project.ask("question 1").matches.runs
    (hit,) = run.hits
    (passage,) = hit.passages
    assert (hit.seq, hit.closed, passage.role, passage.again) == (3, 4, "user", 2)
    (run,) = project.ask("answer 0").matches.runs
    (hit,) = run.hits
    assert [(one.role, one.again) for one in hit.passages] == [("answer", 3)]


def test_reports_of_replays_are_searched(project: Project) -> None:
    record(project.runs / "a", "warm")
    reports = project.root / ".reenact" / "reports"
    reports.mkdir()
    divergence = (
        '{"version": 1, "code": "event_missing", "detail": "say was never asked for \\ud800", '
        '"lane": "0", "eventSeq": 1, "paths": [], "morePaths": 0, "nearest": [], "hint": "", '
        '"flags": []}'
    )
    report = f'{{"version": 1, "status": "diverged", "divergences": [{divergence}], '
    report += '"recording": ".reenact/runs/a"}'
    (reports / "1.json").write_text(report, encoding="utf-8")
    (reports / "other.json").write_text("[1]", encoding="utf-8")
    (reports / "torn.json").write_text("{", encoding="utf-8")
    result = project.ask(diverged="")
    assert hits(result) == [("a", 1)]
    (run,) = result.matches.runs
    assert run.report == reports / "1.json"
    assert [one.path.name for one in result.unreadable] == ["torn.json"]
    assert project.found("never asked", diverged="event_missing") == [("a", 1)]
    assert project.found(diverged="event_unexpected") == []
