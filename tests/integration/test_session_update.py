"""Updating recordings of every shape: what is the same stays, the rest is made, a replay is exact."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import BudgetExceeded, Policy, PolicyRefused, UsageError
from reenact.format.manifest import Manifest
from reenact.policy.model import BoundaryRule, Budgets
from reenact.store.verify import verify
from tests.integration.sessions import Studio


class Updates(Studio):
    """A studio with one recording."""

    def __init__(self, root: Path, place: str) -> None:
        super().__init__(root)
        self.place = root / place
        self.at: dict[str, Any] = {"tape" if place.endswith(".jsonl") else "capture": self.place}
        self.report: Any = None

    def update(self, body: Callable[[], Any], **arguments: Any) -> Any:
        """What an update gives: a replay gives the same, and a second update changes nothing."""
        with self.session(mode="update", **self.at, **arguments) as session:
            made = body()
        self.report = session.report()
        asked, before = self.asked, self.everything()
        assert self.replay(body, **self.at, **arguments) == made
        with self.session(mode="update", **self.at, **arguments) as again:
            assert sorted(map(str, _flat(body()))) == sorted(map(str, _flat(made)))
        assert again.report().outcome.is_same
        assert (self.asked, self.everything()) == (asked, before)
        verify(self.place)
        return made

    def counts(self) -> tuple[int, int, int, int]:
        return tuple(self.report.outcome.counts().values())

    def lines(self) -> list[bytes]:
        log = self.place if self.place.is_file() else self.place / "events.jsonl"
        return log.read_bytes().splitlines()


def _flat(made: Any) -> list[Any]:
    """An update re-enacts no order: tasks may end in another one."""
    return made if isinstance(made, list) else [made]


@pytest.fixture(params=["run.jsonl", "run"], ids=["tape", "capture"])
def studio(tmp_path: Path, request: pytest.FixtureRequest) -> Updates:
    return Updates(tmp_path, request.param)


def _draw() -> list[float]:
    return [time.time(), random.random()]


def test_nothing_changes_when_the_program_does_what_it_did(studio: Updates) -> None:
    def body() -> Any:
        return [studio.get(1), _draw(), list(studio.words(2)), _draw(), studio.get(2)]

    made = studio.record(body, **studio.at)
    before = studio.everything()
    assert studio.update(body) == made
    assert studio.everything() == before
    assert studio.counts() == (3, 0, 0, 0)


def test_the_same_calls_in_another_order_are_written_in_that_order(studio: Updates) -> None:
    studio.record(lambda: [studio.get(1), studio.get(2), studio.get(3)], **studio.at)
    asked = studio.asked
    studio.update(lambda: [studio.get(3), studio.get(1), studio.get(2)])
    assert (studio.counts(), studio.asked) == ((3, 0, 0, 0), asked)


def test_where_calls_are_looked_up_their_order_changes_nothing(studio: Updates) -> None:
    policy = Policy(id="p", match="lookup")
    studio.record(lambda: [studio.get(1), studio.get(2)], **studio.at)
    before = studio.everything()
    studio.update(lambda: [studio.get(2), studio.get(1)], policy=policy)
    assert studio.everything() == before


def test_a_changed_call_is_made_again_and_everything_else_stays(studio: Updates) -> None:
    def body(x: int) -> Callable[[], Any]:
        return lambda: [studio.get(1), _draw(), studio.get(x), _draw(), studio.get(3)]

    made = studio.record(body(2), **studio.at)
    lines = studio.lines()
    again = studio.update(body(9))
    assert [again[0], again[1], again[3], again[4]] == [made[0], made[1], made[3], made[4]]
    assert again[2]["x"] == 9
    assert studio.counts() == (2, 1, 0, 0)
    [changed] = studio.report.changed
    assert changed.json_path == "$.request.x"
    kept = set(lines) & set(studio.lines())
    assert len(lines) - len(kept) == len(studio.lines()) - len(kept)
    assert len(kept) == len(lines) - (2 if studio.place.is_file() else 1)


def test_a_new_call_moves_no_line_of_a_tape(tmp_path: Path) -> None:
    studio = Updates(tmp_path, "run.jsonl")
    studio.record(lambda: [studio.get(1), studio.get(2)], **studio.at)
    header, *old, _ = studio.lines()
    studio.update(lambda: [studio.get(1), studio.get(5), studio.get(2)])
    assert studio.counts() == (2, 0, 1, 0)
    new = studio.lines()
    assert new[0] == header
    assert [line for line in new if line in old] == old
    assert len(new) == len(old) + 3


def test_what_is_not_asked_for_any_more_is_dropped(studio: Updates) -> None:
    studio.record(lambda: [studio.get(1), studio.get(2), _draw(), studio.get(3)], **studio.at)
    studio.update(lambda: [studio.get(1), studio.get(3)])
    assert studio.counts() == (2, 0, 0, 2)
    assert len(studio.events(studio.place)) == 2


def test_draws_go_on_where_a_new_call_comes_between_them(studio: Updates) -> None:
    def body(more: bool) -> Callable[[], Any]:
        def run() -> Any:
            first = random.random()
            return [first, studio.get(5) if more else None, random.random(), studio.get(1)]

        return run

    made = studio.record(body(False), **studio.at)
    again = studio.update(body(True))
    assert [again[0], again[2], again[3]] == [made[0], made[2], made[3]]
    assert studio.counts() == (1, 0, 1, 0)


def test_a_clock_goes_on_from_the_recorded_time(studio: Updates) -> None:
    def body() -> Any:
        return [time.time(), studio.get(1), time.time()]

    long_ago = time.time() - 3_600
    with studio.session(mode="record", **studio.at) as session:
        session.record_nondeterministic("clock", "time.time", long_ago)
        studio.get(1)
    first, _, last = studio.update(body)
    assert first == long_ago
    assert long_ago <= last < long_ago + 600


def test_streams_are_kept_changed_and_dropped(studio: Updates) -> None:
    def body(*counts: int) -> Callable[[], Any]:
        return lambda: [list(studio.words(count)) for count in counts]

    made = studio.record(body(2, 3, 4), **studio.at)
    again = studio.update(body(2, 5))
    assert again[0] == made[0]
    assert len(again[1]) == 5
    assert studio.counts() == (1, 1, 0, 1)


def test_a_stream_that_was_read_in_part_is_made_again_where_more_is_wanted(
    studio: Updates,
) -> None:
    studio.record(lambda: [next(studio.words(3))], **studio.at)
    assert len(studio.update(lambda: list(studio.words(3)))) == 3
    assert studio.counts() == (0, 1, 0, 0)


def _tool(studio: Updates, number: int) -> Any:
    session = reenact.current()
    assert session is not None
    return session.call("tool", {"n": number}, lambda: [studio.get(number), _draw(), studio.get(0)])


def test_tools_keep_their_insides_at_their_places(studio: Updates) -> None:
    def body(x: int) -> Callable[[], Any]:
        return lambda: [_tool(studio, 1), studio.get(x), _tool(studio, 2)]

    made = studio.record(body(5), **studio.at)
    lanes = [event.lane for event in studio.events(studio.place)]
    again = studio.update(body(6))
    assert [again[0], again[2]] == [made[0], made[2]]
    assert [event.lane for event in studio.events(studio.place)] == lanes


def test_a_tool_that_changed_runs_again_with_all_that_it_does(studio: Updates) -> None:
    made = studio.record(lambda: [_tool(studio, 1), _tool(studio, 2)], **studio.at)
    again = studio.update(lambda: [_tool(studio, 1), _tool(studio, 3)])
    assert again[0] == made[0]
    assert again[1] != made[1]
    assert studio.report.changed[0].code == "event_payload_mismatch"
    inside = [event for event in studio.events(studio.place) if event.lane != "0"]
    assert len(inside) == 6


def test_a_tool_that_is_run_again_is_changed_if_it_gives_something_else(studio: Updates) -> None:
    policy = Policy(id="p", boundaries=(BoundaryRule(operation="tool", action="re-execute"),))

    def body(factor: int) -> Callable[[], Any]:
        def run() -> Any:
            session = reenact.current()
            assert session is not None
            return session.call("tool", {}, lambda: studio.get(1)["n"] * factor)

        return run

    one = studio.record(body(1), policy=policy, **studio.at)
    assert studio.update(body(7), policy=policy) == one * 7
    assert studio.counts() == (1, 1, 0, 0)


def test_tasks_that_run_at_once(studio: Updates) -> None:
    async def worker(name: int, numbers: list[int], seen: list[Any]) -> None:
        for number in numbers:
            seen.append(await studio.aget([name, number]))
            seen.append(await asyncio.to_thread(studio.get, [name, number, "thread"]))

    async def run(numbers: list[int]) -> Any:
        seen: list[Any] = []
        await asyncio.gather(*(worker(name, numbers, seen) for name in range(3)))
        return seen

    def body(*numbers: int) -> Callable[[], Any]:
        return lambda: asyncio.run(run(list(numbers)))

    made = studio.record(body(1, 2), **studio.at)
    again = studio.update(body(1, 3))
    old = {str(one["x"]): one["n"] for one in made}
    assert {str(one["x"]): one["n"] for one in again if one["x"][1] == 1}.items() <= old.items()
    assert studio.counts()[0] == 6


def test_a_run_that_fails_leaves_the_recording_as_it_was(studio: Updates) -> None:
    studio.record(lambda: studio.get(1), **studio.at)
    before = studio.everything()
    with pytest.raises(ZeroDivisionError), studio.session(mode="update", **studio.at):
        studio.get(2)
        raise ZeroDivisionError
    assert studio.everything() == before
    assert any("stays as it was" in one for one in studio.warnings)


def test_without_a_recording_it_is_one(studio: Updates) -> None:
    assert studio.update(lambda: studio.get(1))["x"] == 1


def test_its_report_is_for_machines_too(studio: Updates) -> None:
    studio.record(lambda: [studio.get(1), studio.get(2)], **studio.at)
    studio.update(lambda: [studio.get(1), studio.get(3), studio.get(4)])
    told = studio.report.to_json()
    assert (told["status"], told["mode"], told["kept"]) == ("ok", "update", 1)
    assert [one["code"] for one in told["changed"]] == ["event_payload_mismatch"]
    assert [one["code"] for one in told["added"]] == ["event_unexpected"]
    assert told["dropped"] == []


def test_no_secret_is_in_the_report_or_the_recording(studio: Updates) -> None:
    token = "gh" + "p_" + "Ab3" * 12

    def body(x: str) -> Callable[[], Any]:
        asked = ({"token": token, "x": x}, f"it is {token}")
        return lambda: [studio.get(one)["n"] for one in asked]

    studio.record(body("old"), **studio.at)
    studio.update(body("new"))
    assert studio.counts() == (1, 1, 0, 0)
    assert token not in str(studio.report.to_json())
    assert not any(token.encode() in (data or b"") for data in studio.everything().values())


def test_what_goes_makes_room_for_what_comes(studio: Updates) -> None:
    policy = Policy(id="p", budgets=Budgets(entries=2))
    studio.record(lambda: [studio.get(1), studio.get(2)], policy=policy, **studio.at)
    again = studio.update(lambda: [studio.get(1), studio.get(3)], policy=policy)
    assert [one["x"] for one in again] == [1, 3]
    with pytest.raises(BudgetExceeded), studio.session(mode="update", policy=policy, **studio.at):
        for number in (1, 3, 4):
            studio.get(number)


def test_who_may_add_may_update_and_nobody_else(tmp_path: Path) -> None:
    studio = Updates(tmp_path, "run.jsonl")
    folder = tmp_path / ".reenact"
    folder.mkdir()
    index = '{"schemaVersion": "reenact.index@1", "policies": [], "defaults": {"modes": ["record", "%s"]}}'
    (folder / "index.json").write_text(index % "replay", encoding="utf-8")
    studio.record(lambda: studio.get(1), **studio.at)
    with pytest.raises(PolicyRefused, match="record_missing"):
        studio.session(mode="update", **studio.at)
    (folder / "index.json").write_text(index % "record_missing", encoding="utf-8")
    with studio.session(mode="update", **studio.at):
        assert studio.get(1)["n"] == 1


def test_it_has_no_number_and_is_no_mode_of_the_low_level_api(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no mode 5"):
        reenact.session("x", mode=5, root=tmp_path)
    with pytest.raises(reenact.RrError, match=r"2000.*update"):
        reenact.rr.open({"path": "x", "mode": "update"})


# Recording again


def _rewrite(studio: Updates, body: Callable[[], Any]) -> None:
    with studio.session(mode="rewrite", **studio.at):
        body()


def test_a_tape_that_is_recorded_again_and_is_the_same_is_not_touched(tmp_path: Path) -> None:
    studio = Updates(tmp_path, "run.jsonl")

    def body() -> Any:
        session = reenact.current()
        assert session is not None
        return session.call("t", {"a": 1}, lambda: "b")

    studio.record(body, **studio.at)
    before = studio.everything()
    _rewrite(studio, body)
    assert studio.everything() == before


def test_a_tape_that_is_recorded_again_shows_what_changed(tmp_path: Path) -> None:
    studio = Updates(tmp_path, "run.jsonl")

    def body(answer: str) -> Callable[[], Any]:
        def run() -> Any:
            session = reenact.current()
            assert session is not None
            names = ("first", "second", "third")
            answers = {"second": answer}
            return [session.call(name, {}, partial(answers.get, name, name)) for name in names]

        return run

    studio.record(body("old"), **studio.at)
    old = studio.lines()
    manifest: Manifest = studio.manifest(studio.place)
    _rewrite(studio, body("new"))
    new = studio.lines()
    assert [number for number, line in enumerate(new) if line != old[number]] == [4, 7]
    assert studio.manifest(studio.place).capture_id == manifest.capture_id
    assert studio.replay(body("x"), **studio.at) == ["first", "new", "third"]
