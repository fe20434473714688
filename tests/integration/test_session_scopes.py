"""Sessions inside, beside and after each other: none sees another one's calls."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, SessionClosed, UsageError
from tests.integration.sessions import Studio, outcome


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


# One inside the other


def test_the_outer_session_is_back_after_the_inner_one(studio: Studio) -> None:
    with studio.session("outer", mode="record") as outer:
        studio.get(1)
        with studio.session("inner", mode="record") as inner:
            assert reenact.current() is inner
            studio.get(2)
        assert reenact.current() is outer
        studio.get(3)
    assert reenact.current() is None
    assert [event.data["request"]["x"] for event in studio.events("outer")] == [1, 3]
    assert [event.data["request"]["x"] for event in studio.events("inner")] == [2]


@pytest.mark.parametrize("mode", ["off", "record", "replay"])
def test_the_outer_session_is_back_when_the_inner_one_raises(studio: Studio, mode: str) -> None:
    studio.record(lambda: studio.get(1), "there")
    name = "there" if mode == "replay" else "new"
    with studio.session("outer", mode="record") as outer:
        with pytest.raises(KeyError), studio.session(name, mode=mode, strict=True):
            raise KeyError
        assert reenact.current() is outer
        with pytest.raises(reenact.ReenactError), studio.session("missing", mode="replay"):
            pytest.fail("it does not open")
        assert reenact.current() is outer


def test_tasks_have_sessions_of_their_own(studio: Studio) -> None:
    async def inner(name: str) -> Any:
        async with studio.session(name, mode="record") as session:
            answers = [await studio.aget(number) for number in range(3)]
            assert reenact.current() is session
            if name == "fails":
                raise KeyError(name)
            return answers

    async def outer() -> list[Any]:
        async with studio.session("outer", mode="record") as session:
            await studio.aget("before")
            names = ("one", "fails", "two")
            results = await asyncio.gather(*map(inner, names), return_exceptions=True)
            assert reenact.current() is session
            await studio.aget("after")
            return results

    results = asyncio.run(outer())
    assert isinstance(results[1], KeyError)
    assert [event.data["request"]["x"] for event in studio.events("outer")] == ["before", "after"]
    for name in ("one", "fails", "two"):
        assert [event.data["request"]["x"] for event in studio.events(name)] == [0, 1, 2]


@pytest.mark.soak
def test_sessions_in_threads_and_tasks_never_mix(
    studio: Studio, rounds: Callable[[int, int], int]
) -> None:
    """Eight sessions at once, each with tasks and threads, all asking for the same things."""
    together = threading.Barrier(8)

    async def program(name: str) -> Any:
        async def worker(number: int) -> Any:
            first = await studio.aget("same")
            second = await asyncio.to_thread(studio.get, "same")
            return [name, number, first, second]

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(worker(number)) for number in range(3)]
        return [task.result() for task in tasks]

    def run(name: str, mode: str, results: dict[str, Any]) -> None:
        together.wait(60)
        with studio.session(name, mode=mode, strict=True):
            results[name] = asyncio.run(program(name))

    for turn in range(rounds(2, 20)):
        found: dict[str, dict[str, Any]] = {"record": {}, "replay": {}}
        for mode, results in found.items():
            names = [f"t{turn}-{number}" for number in range(8)]
            threads = [threading.Thread(target=run, args=(name, mode, results)) for name in names]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert found["replay"] == found["record"]
        assert len(found["record"]) == 8
        numbers = [
            answer["n"]
            for result in found["record"].values()
            for one in result
            for answer in one[2:]
        ]
        assert len(set(numbers)) == len(numbers) == 8 * 3 * 2


def test_two_tasks_of_one_loop_record_and_replay_at_the_same_time(studio: Studio) -> None:
    made = studio.record(lambda: asyncio.run(_asks(studio, 5)), "old")

    async def one(name: str, mode: str) -> Any:
        async with studio.session(name, mode=mode, strict=True):
            return await _asks(studio, 5)

    async def both() -> Any:
        return await asyncio.gather(one("old", "replay"), one("new", "record"))

    old, new = asyncio.run(both())
    assert old == made
    assert studio.replay(lambda: asyncio.run(_asks(studio, 5)), "new") == new


async def _asks(studio: Studio, count: int) -> list[Any]:
    return [await studio.aget(number) for number in range(count)]


# Opening and closing


def test_async_with_records_and_replays(studio: Studio) -> None:
    async def run(mode: str) -> Any:
        async with studio.session(mode=mode, strict=True) as session:
            assert reenact.current() is session
            return await _asks(studio, 2)

    made = asyncio.run(run("record"))
    assert asyncio.run(run("replay")) == made


def test_a_session_is_opened_once(studio: Studio) -> None:
    session = studio.session(mode="record")
    with session:
        with pytest.raises(UsageError, match="opened once"):
            session.__enter__()
        studio.get(1)
    with pytest.raises(UsageError, match="opened once"):
        session.__enter__()
    assert studio.replay(lambda: studio.get(1))["n"] == 1


def test_a_session_that_was_not_opened_says_so(studio: Studio) -> None:
    session = studio.session(mode="record")
    for use in (
        lambda: session.call("tool", {}, lambda: 1),
        lambda: session.record_nondeterministic("clock", "now", 1),
        lambda: session.record_event("state_mutation", {"type": "x", "details": {}}),
        session.divergences,
        session.report,
    ):
        with pytest.raises(SessionClosed, match="has not been opened"):
            use()


def test_a_rule_that_cannot_be_read_leaves_nothing_behind(studio: Studio) -> None:
    ignore = reenact.Ignore(paths=("$.a[",))
    places: list[dict[str, Any]] = [{"tape": studio.root / "t"}, {"capture": studio.root / "c"}]
    for place in places:
        with (
            pytest.raises(reenact.ReenactError),
            studio.session(mode="record", ignore=ignore, **place),
        ):
            pytest.fail("it does not open")
    assert studio.everything() == {}
    assert reenact.current() is None


# After the end


def test_a_late_call_of_a_recording_is_made_and_said_once(studio: Studio) -> None:
    go: queue.Queue[None] = queue.Queue()
    answers: list[Any] = []

    def late() -> None:
        go.get()
        answers.extend([studio.get(1), studio.get(2), list(studio.words(1))])

    with studio.session(mode="record") as session:
        thread = threading.Thread(target=late)
        thread.start()
    go.put(None)
    thread.join()
    session.record_event("state_mutation", {"type": "x", "details": {}})
    session.record_nondeterministic("clock", "now", 1)
    assert answers == [{"x": 1, "n": 1}, {"x": 2, "n": 2}, ["w0-3"]]
    assert len(studio.warnings) == 1
    assert "after the end" in studio.warnings[0]
    assert studio.events() == []


def test_a_late_call_of_a_replay_is_refused(studio: Studio) -> None:
    studio.record(lambda: studio.get(1))
    with studio.session(mode="replay", strict=True) as session:
        studio.get(1)
    for use in (
        lambda: session.call("tool", {}, lambda: pytest.fail("it is not made")),
        lambda: session.stream("words", {}, lambda: pytest.fail("it is not made")),
        lambda: session.record_nondeterministic("clock", "now", 1),
        lambda: session.next_nondeterministic("clock", "now"),
        lambda: session.record_event("run_start", {"input": 1}),
        lambda: asyncio.run(_acall(session)),
    ):
        with pytest.raises(SessionClosed, match="after its end"):
            use()


async def _acall(session: reenact.Session) -> Any:
    return await session.aio.call("tool", {}, lambda: pytest.fail("it is not made"))


@pytest.mark.parametrize("mode", ["record", "replay"])
def test_timers_go_on_after_the_end(studio: Studio, mode: str) -> None:
    async def run(mode: str) -> Any:
        async with studio.session(mode=mode, strict=True):
            sleeper = asyncio.create_task(asyncio.sleep(0.02, "slept"))
            await studio.aget(1)
        return await sleeper

    assert asyncio.run(run("record")) == "slept"
    if mode == "replay":
        assert asyncio.run(run(mode)) == "slept"


def test_a_call_that_is_under_way_at_the_end_goes_on_and_is_recorded_as_unfinished(
    studio: Studio,
) -> None:
    started, go = threading.Event(), threading.Event()
    answers: list[Any] = []

    def live() -> int:
        started.set()
        go.wait()
        return 5

    def slow() -> None:
        session = reenact.current()
        assert session is not None
        if session.mode == "replay":
            started.set()
        answers.append(outcome(lambda: session.call("slow", {}, live)))

    def run(mode: str) -> None:
        with studio.session(mode=mode, strict=True, unused="allow", patience=60):
            thread = threading.Thread(target=slow)
            thread.start()
            started.wait()
        go.set()
        thread.join()
        started.clear()
        go.clear()

    run("record")
    assert studio.events()[-1].data["unfinished"] is True
    run("replay")  # it is not answered, and it does not wait for ever
    assert answers[0] == 5
    assert answers[1][0] is SessionClosed


# What a replay complains about


def test_every_call_after_a_strict_divergence_raises_it_again(studio: Studio) -> None:
    studio.record(lambda: [studio.get(1), studio.get(2)])
    with pytest.raises(DivergenceError) as caught, studio.session(mode="replay", strict=True):
        for number in (9, 1, 2):
            with pytest.raises(DivergenceError) as again:
                studio.get(number)
            assert again.value.to_json()["observed"]["data"]["request"] == {"x": 9}
        with pytest.raises(DivergenceError):
            list(studio.words(1))
    assert caught.value.to_json()["observed"]["data"]["request"] == {"x": 9}


def _swallow(studio: Studio) -> None:
    try:
        studio.get(9)
    except:  # noqa: E722
        pass


def _swallow_in_a_thread(studio: Studio) -> None:
    thread = threading.Thread(target=_swallow, args=(studio,))
    thread.start()
    thread.join()


def _swallow_in_a_gather(studio: Studio) -> None:
    async def gather() -> None:
        await asyncio.gather(studio.aget(9), return_exceptions=True)

    asyncio.run(gather())


@pytest.mark.parametrize("swallow", [_swallow, _swallow_in_a_thread, _swallow_in_a_gather])
def test_a_swallowed_divergence_is_raised_at_the_end(
    studio: Studio, swallow: Callable[[Studio], None]
) -> None:
    studio.record(lambda: studio.get(1))
    with pytest.raises(DivergenceError) as caught, studio.session(mode="replay", strict=True):
        swallow(studio)
    assert caught.value.to_json()["observed"]["data"]["request"] == {"x": 9}


def test_the_exception_of_the_body_comes_out_and_the_divergence_is_said(studio: Studio) -> None:
    studio.record(lambda: studio.get(1))
    with pytest.raises(KeyError, match="mine"), studio.session(mode="replay", strict=True):
        _swallow(studio)
        raise KeyError("mine")
    assert len(studio.warnings) == 1
    assert "event_payload_mismatch" in studio.warnings[0]


def test_nothing_is_left_over_where_the_body_failed(studio: Studio) -> None:
    studio.record(lambda: [studio.get(1), studio.get(2)])
    with pytest.raises(KeyError), studio.session(mode="replay", strict=True) as session:
        studio.get(1)
        raise KeyError
    assert session.divergences() == []
    assert studio.warnings == []


def test_a_divergence_that_leaves_the_body_is_not_said_twice(studio: Studio) -> None:
    studio.record(lambda: studio.get(1))
    with pytest.raises(DivergenceError), studio.session(mode="replay", strict=True):
        studio.get(2)
    assert studio.warnings == []


@pytest.mark.parametrize("strict", [True, False])
def test_unused_events_are_an_error_a_warning_or_nothing(studio: Studio, strict: bool) -> None:
    studio.record(lambda: [studio.get(1), studio.get(2), studio.get(3)])

    def one(**arguments: Any) -> reenact.Session:
        with studio.session(mode="replay", strict=strict, **arguments) as session:
            studio.get(1)
        return session

    with pytest.raises(DivergenceError) as caught:
        one(unused="error")
    assert caught.value.to_json()["code"] == "event_missing"
    assert str(caught.value).count("event_missing") == 2
    assert studio.warnings == []

    assert one(unused="warn").report().to_json()["counts"]["unused"] == 2
    assert len(studio.warnings) == 1

    assert one(unused="allow").divergences() == []
    assert len(studio.warnings) == 1

    if strict:
        with pytest.raises(DivergenceError):
            one()
    else:
        assert one().report().status == "diverged"


def test_a_lenient_session_goes_on_and_reports(studio: Studio) -> None:
    one, two, three = studio.record(lambda: [studio.get(number) for number in (1, 2, 3)])
    with studio.session(mode="replay", strict=False) as session:
        assert studio.get(1) == one
        assert studio.get(3) == three  # recorded later in this lane
        assert studio.get(9) == two  # nothing like it: the next of the same operation
        with pytest.raises(DivergenceError):
            studio.get(9)  # nothing is left to serve
    codes = [divergence.code for divergence in session.divergences()]
    assert codes == ["event_payload_mismatch", "event_unexpected", "event_unexpected"]
    report = session.report().to_json()
    assert report["status"] == "diverged"
    assert report["counts"] == {
        "served": 3,
        "live": 0,
        "passed": {},
        "divergences": 3,
        "unused": 0,
    }
    assert len(studio.warnings) == 1
    assert studio.warnings[0].startswith("3 divergences")


def test_the_report_is_the_same_every_time(studio: Studio) -> None:
    studio.record(lambda: [studio.get(number) for number in (1, 2, 3)])
    reports: list[dict[str, Any]] = []
    for _ in range(2):
        with studio.session(mode="replay", strict=False) as session:
            studio.get(2)
            studio.get(7)
        reports.append(session.report().to_json())
    assert reports[0] == reports[1]
    assert list(reports[0]) == ["version", "mode", "status", "counts", "divergences"]
    assert reports[0]["version"] == 1
    assert [one["code"] for one in reports[0]["divergences"]] == [
        "event_payload_mismatch",
        "event_payload_mismatch",
        "event_missing",
    ]


def test_a_session_that_went_well_has_a_report_too(studio: Studio) -> None:
    with studio.session(mode="record") as session:
        studio.get(1)
    assert session.report().to_json() == {
        "version": 1,
        "mode": "record",
        "status": "ok",
        "counts": {"served": 0, "live": 1, "passed": {}, "divergences": 0, "unused": 0},
        "divergences": [],
    }
