"""An exchange that is under way, for tests of what notes itself in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reenact.exchange.context import Lineage, Position, set_position
from reenact.exchange.model import ErrorFacts, Processor, Trace

__all__ = ["Watched", "facts", "flowing"]


class Watched:
    """``processors`` are there once the exchange is over."""

    def __init__(self) -> None:
        self.processors: tuple[Processor, ...] = ()

    def tree(self) -> list[str]:
        """``seq<parent id#iteration status``, one line for each."""
        return [
            f"{one.seq}<{one.parent_seq} {one.kind} {one.processor_id}"
            + ("" if one.iteration is None else f"#{one.iteration}")
            + ("" if one.status == "completed" else f" {one.status}")
            for one in self.processors
        ]

    def one(self, processor_id: str) -> Processor:
        [found] = [one for one in self.processors if one.processor_id == processor_id]
        return found


def facts(error: BaseException) -> ErrorFacts:
    return ErrorFacts(type=type(error).__name__, message=str(error))


@contextmanager
def flowing(*, is_replay: bool = False) -> Iterator[Watched]:
    trace = Trace(trace_id="1" * 32, span_id="2" * 16)
    flow = Lineage("ex_1", trace, now=lambda: 5, describe=facts, is_replay=is_replay)
    watched = Watched()
    with set_position(Position(flow)):
        try:
            yield watched
        finally:
            watched.processors = flow.close()
