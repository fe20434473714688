"""What is kept of many re-enactments, and where they are looked for."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from reenact.engine.divergence.model import Divergence, Gap
from reenact.errors import RecordingDamaged, RecordingMissing, UsageError
from reenact.runs.regression.baseline import Baseline, BaselineUpdate, KnownFailure
from reenact.runs.regression.discovery import find_recordings, shard_of
from reenact.runs.regression.jobs import Job
from reenact.runs.regression.outcomes import Outcome, Tally, as_line, diverged
from reenact.runs.regression.regression import Journal, Regression
from reenact.runs.regression.report import Header, junit_xml, page_contents, report_json
from reenact.runs.remote.location import RemoteRecording


def _gap(number: int, kind: Literal["changed", "removed"]) -> Gap:
    return Gap(
        path=f"$.messages[{number}].content",
        normalised="$",
        kind=kind,
        expected=f"then {number}",
        observed=f"now {number}",
    )


def _diverged(number: int) -> Outcome:
    gap = _gap(number, "changed")
    found = Divergence(code="event_payload_mismatch", detail="", lane="0", paths=[gap])
    return diverged(Path(f"runs/{number:03}"), found)


def _outcomes() -> list[Outcome]:
    fine = [Outcome(recording=f"fine/{number}", status="ok", served=2) for number in range(3)]
    known = Outcome(recording="old", status="failed", cause="KeyError", detail="…", known=True)
    return [*map(_diverged, range(20)), *fine, known]


def _tally(outcomes: list[Outcome]) -> Tally:
    tally = Tally()
    for one in outcomes:
        tally.add(one)
    return tally


def test_the_order_in_which_they_come_does_not_matter() -> None:
    account = Header(paths=["runs"], job=Job(target="a:b"), total=24)
    mixed = _outcomes()
    random.Random(7).shuffle(mixed)
    one, other = _tally(_outcomes()), _tally(mixed)
    assert report_json(account, one) == report_json(account, other)
    assert page_contents(account, one) == page_contents(account, other)
    assert junit_xml(one) == junit_xml(other)


def test_many_with_one_cause_are_one_and_a_few_are_kept_in_full() -> None:
    tally = _tally(_outcomes())
    assert tally.counts == {"diverged": 20, "ok": 3, "known": 1}
    new, known = tally.groups()
    assert (new.cause, len(new.outcomes)) == (
        "event_payload_mismatch $.messages[*].content",
        20,
    )
    full = [one.recording for one in new.outcomes if one.divergence is not None]
    assert full == [f"runs/{number:03}" for number in range(5)]
    assert new.outcomes[19].gist == '$.messages[19].content: "then 19" → "now 19"'
    assert known.known


def test_texts_of_a_page_are_compared_word_by_word() -> None:
    found = page_contents(Header(paths=[], job=Job(), total=24), _tally(_outcomes()))
    (gap,) = found["groups"][0]["full"][0]["divergence"]["paths"]
    assert gap["words"] == [("removed", "then"), ("added", "now"), ("same", " 0")]
    assert found["ok"] == [[f"fine/{number}", 0.0, 2] for number in range(3)]


def test_what_cannot_be_written_is_escaped_or_left_out() -> None:
    outcome = Outcome(recording="r", status="failed", cause="\ud800", detail="é\udfff")
    assert (outcome.cause, outcome.detail) == ("\\ud800", "é\\udfff")
    outcome.divergence = {"half": "\ud800"}
    assert msgspec.json.decode(as_line(outcome), type=Outcome).divergence is None


@pytest.mark.parametrize(
    "content, says",
    [
        (b"what\nis\nthis\n", "is not a regression journal"),
        (b'{"version":9,"job":{}}\n', "has version 9, but only version 1 is supported"),
        (b'{"version":1,"job":{"target":"x:y"}}\n', "is the journal of a different job"),
    ],
    ids=["other", "newer", "job"],
)
def test_a_journal_that_cannot_be_gone_on_with(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(UsageError, match=says):
        Journal(tmp_path / "j", Job(target="a:b")).read()


def test_a_baseline_forgets_recordings_that_are_gone(tmp_path: Path) -> None:
    here, old = str(tmp_path), KnownFailure("old")
    before = Baseline({here: old, str(tmp_path / "gone"): old, "run": old, "s3://b/run": old})
    after = before.updated([Outcome(recording="run", status="failed", cause="new")])
    assert after.write(tmp_path / "b.json", before) == BaselineUpdate(known=3, new=1, gone=1)
    known = Baseline.load(tmp_path / "b.json")
    assert known.has(Outcome(recording="run", status="failed", cause="new"))
    for name in (here, "s3://b/run"):
        assert known.has(Outcome(recording=name, status="failed", cause="old"))


def test_two_causes_with_the_same_first_path_are_two() -> None:
    one, other, more = _diverged(1), _diverged(1), _diverged(1)
    other.paths = (*one.paths, "added $.request.seed")
    more.paths = (*one.paths, "more")
    assert one.cause == other.cause
    known = Baseline({}).updated([one])
    assert known.has(_diverged(1))
    assert not known.has(other)
    assert not known.has(more)


def test_a_baseline_compares_paths_wherever_they_are_in_a_list() -> None:
    gaps = [_gap(number, "changed") for number in (3, 1, 2)]
    found = Divergence(code="event_payload_mismatch", detail="", lane="0", paths=gaps)
    one = diverged(Path("runs/001"), found)
    assert one.paths == ("changed $.messages[*].content",)
    assert Baseline({}).updated([one]).has(_diverged(1))
    rest = Divergence(
        code="event_payload_mismatch",
        detail="",
        lane="0",
        paths=[_gap(1, "changed"), _gap(2, "removed")],
        more_paths=7,
    )
    assert diverged(Path("r"), rest).paths == (
        "changed $.messages[*].content",
        "removed $.messages[*].content",
        "more",
    )


@pytest.mark.parametrize(
    "content, says",
    [
        (b"[]", "is not a baseline"),
        (b'{"version":2,"known":{}}', "has version 2, but only version 1 is supported"),
        (b'{"version":1,"known":{"a":"b"}}', "is not a baseline"),
        (b"\xff", "is not a baseline"),
    ],
    ids=["list", "newer", "mixed", "bytes"],
)
def test_what_is_no_baseline(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "b.json").write_bytes(content)
    with pytest.raises(UsageError, match=says):
        Baseline.load(tmp_path / "b.json")


def test_what_could_not_be_got_is_never_known_and_not_done(tmp_path: Path) -> None:
    away = Outcome(recording="s3://b/1", status="unreadable", cause="ServerUnusable", away=True)
    before = Baseline({"s3://b/1": KnownFailure("KeyError")})
    after = before.updated([away])
    assert not after.has(away)
    assert not Baseline({"s3://b/1": KnownFailure("ServerUnusable")}).has(away)
    assert after.has(Outcome(recording="s3://b/1", status="failed", cause="KeyError"))
    job = Job(target="a:b")
    journal = Journal(tmp_path / "j", job)
    journal.add(as_line(away))
    journal.add(as_line(Outcome(recording="s3://b/2", status="ok")))
    journal.close()
    run = Regression(Header(paths=[], job=job, total=2), Baseline({}), Journal(tmp_path / "j", job))
    both = [RemoteRecording(keeper="s3", name=f"s3://b/{number}") for number in (1, 2)]
    assert run.resume(both) == both[:1]


def _capture(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "manifest.json").touch()


def test_recordings_are_found_once_and_links_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _capture(Path("runs/b"))
    _capture(Path("runs/a"))
    Path("runs/loop").symlink_to("..", target_is_directory=True)
    (Path("runs") / "t.jsonl").write_bytes(b'{"format":{"name":"reenact"')
    found = find_recordings([Path("runs/b"), Path("runs"), tmp_path / "runs"])
    assert [one.as_posix() for one in found] == ["runs/b", "runs/a", "runs/t.jsonl"]
    parts = [shard_of(found, f"{part}/2") for part in (1, 2)]
    assert sorted(map(str, parts[0] + parts[1])) == sorted(map(str, found))
    with pytest.raises(RecordingMissing, match="no recording found under"):
        Path("empty").mkdir()
        find_recordings([Path("empty")])


def test_the_error_for_a_file_of_another_tool_names_its_import(tmp_path: Path) -> None:
    file = tmp_path / "smoke.rrbin"
    file.write_bytes(b"\x7f\x00\x00\x00\x01\x05")
    with pytest.raises(RecordingDamaged) as caught:
        find_recordings([file])
    assert f"reenact import {file}" in caught.value.hint


def test_a_folder_that_cannot_be_read_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _capture(tmp_path / "runs/a")
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    (tmp_path / "runs/closed").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        find_recordings([tmp_path / "runs"])
