"""Whatever a program becomes: its updated recording replays it, and holds nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.engine.session.session import Session
from reenact.store.sinks.memory import MemorySource
from reenact.testing import memory_session

Step = tuple[str, int]

steps = st.lists(
    st.tuples(
        st.sampled_from(["call", "clock", "chance", "aside", "stream", "tool"]),
        st.integers(0, 3),
    ),
    max_size=10,
)


def _run(session: Session, program: list[Step], world: Iterator[int]) -> list[Any]:
    """What the program sees; no two answers of the world are the same."""

    def answer() -> int:
        return next(world)

    def words(number: int) -> Iterator[int]:
        for _ in range(number):
            yield answer()

    def take(kind: str, number: int) -> Any:
        if kind == "call":
            return session.call("get", {"x": number}, answer, capability="net.fetch")
        if kind == "stream":
            return list(session.stream("words", {"n": number}, lambda: words(number)))
        if kind == "tool":
            return session.call("tool", {"x": number}, lambda: [take("call", 9), take("chance", 1)])
        if kind == "aside":  # of libraries: alone it is no reason to write, and never a divergence
            for _ in range(number):
                session.draws.draw_aside("rng lib", answer)
            return None
        name = "clock time.time" if kind == "clock" else "rng random.random"
        return [session.draws.draw(name, lambda: answer() / 7) for _ in range(number)]

    return [take(kind, number) for kind, number in program]


def _recorded(program: list[Step], world: Iterator[int]) -> tuple[list[Any], MemorySource]:
    with memory_session(mode="record") as session:
        seen = _run(session, program, world)
    return seen, session.recorded()


@settings(max_examples=60)
@given(steps, steps)
def test_an_updated_recording_is_that_of_the_program_as_it_is_now(
    before: list[Step], now: list[Step]
) -> None:
    world = count(1)
    seen, old = _recorded(before, world)
    with memory_session(old, mode="update") as session:
        made = _run(session, now, world)
    new = session.recorded()
    with memory_session(new) as replayed:
        assert _run(replayed, now, world) == made
    assert replayed.report().status == "ok"
    with memory_session(new, mode="update") as again:
        assert _run(again, now, world) == made
    assert again.report().outcome.is_same
    assert again.recorded().manifest() == new.manifest()
    if before == now:
        assert made == seen
        assert new.manifest() == old.manifest()


@settings(max_examples=40)
@given(steps)
def test_a_call_that_comes_in_front_changes_nothing_else(program: list[Step]) -> None:
    world = count(1)
    seen, old = _recorded(program, world)
    with memory_session(old, mode="update") as session:
        _, *made = _run(session, [("call", 99), *program], world)
    assert made == seen
    report = session.report()
    assert (report.changed, len(report.added), report.dropped) == ([], 1, [])
