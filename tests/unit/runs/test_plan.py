"""The folder of a run: the plan, the lanes of its processes, and their reports."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reenact.errors import UsageError
from reenact.runs.plan import (
    Plan,
    ProcessReport,
    claim_lane,
    read_plan,
    read_process_reports,
    write_plan,
    write_process_report,
)

PLAN = Plan(
    mode="replay",
    path="/somewhere/Größe",
    tape=True,
    root="/somewhere",
    strict=True,
    policy="p",
    allow=("process.exec",),
    only="network",
    boundaries=("mine",),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_plan(tmp_path, PLAN)
    return tmp_path


def test_processes_read_what_was_written(folder: Path) -> None:
    assert read_plan(folder) == PLAN


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"mode": "replay"}', b"[]"], ids=str)
def test_a_folder_without_a_plan(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "plan.json").write_bytes(content)
    with pytest.raises(UsageError, match="contains no plan of a run") as caught:
        read_plan(tmp_path)
    assert "unset REENACT_RUN" in caught.value.hint


def test_a_process_gets_the_lane_that_it_was_started_in(folder: Path) -> None:
    assert [claim_lane(folder, "0.1"), claim_lane(folder, "0.2")] == ["0.1", "0.2"]


def test_strangers_are_numbered_by_their_arrival(folder: Path) -> None:
    assert [claim_lane(folder, None) for _ in range(3)] == ["0", "1", "2"]


def test_a_lane_that_is_taken_leads_to_lanes_below_it(folder: Path) -> None:
    """A process that hands its environment on, and the lane with it."""
    assert [claim_lane(folder, "0.1") for _ in range(3)] == ["0.1", "0.1.0.0", "0.1.0.1"]


def test_no_two_processes_have_the_same_lane(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = Counter(pool.map(lambda _: claim_lane(folder, None), range(64)))
    assert sorted(found.values()) == [1] * 64


def test_the_last_report_of_a_process_counts(folder: Path) -> None:
    write_process_report(folder, ProcessReport(pid=7, lane="0", served=1))
    write_process_report(
        folder,
        ProcessReport(pid=8, lane="0.1", problem={"code": "recording.damaged", "message": "no"}),
    )
    last = ProcessReport(
        pid=7,
        lane="0",
        served=2,
        passed={"net.fetch GET": 3},
        divergences=[{"code": "event_missing"}],
        texts=["divergence: event_missing"],
        ended=True,
    )
    write_process_report(folder, last)
    assert [told.pid for told in read_process_reports(folder)] == [7, 8]
    assert read_process_reports(folder)[0] == last


def test_threads_of_one_process_report_at_the_same_time(folder: Path) -> None:
    def report(number: int) -> None:
        write_process_report(folder, ProcessReport(pid=7, lane="0", served=number))

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(report, number) for number in range(200)]:
            done.result()
    (told,) = read_process_reports(folder)
    assert told.served in range(200)
    assert [place.name for place in (folder / "reports").iterdir()] == ["0-7.json"]


def test_a_torn_report_is_not_there(folder: Path) -> None:
    write_process_report(folder, ProcessReport(pid=7, lane="0"))
    (folder / "reports" / "0.1-8.json").write_bytes(b'{"pid": 8, "la')
    (folder / "reports" / "0.2-9.json.new").write_bytes(b"")
    assert [told.pid for told in read_process_reports(folder)] == [7]
