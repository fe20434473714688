"""Make calls in a session for ever and acknowledge each: CONTAINER PLACE MODE PIPE."""

from __future__ import annotations

import sys
from typing import Any

import reenact
from tests.integration.programs.acknowledge import Acknowledge

__all__ = ["step"]


def step(session: reenact.Session, number: int) -> Any:
    """One of three kinds of calls; the answer depends on the number only."""
    request = {"n": number}
    if number % 3 == 0:
        return session.call("get", request, lambda: number * number, capability="net.fetch")
    if number % 3 == 1:
        return session.call(
            "tool",
            request,
            lambda: [session.call("in", request, lambda: -number, capability="net.fetch"), number],
        )
    return list(session.stream("words", request, lambda: iter([number, "a", "b"])))


def main() -> None:
    container, place, mode, pipe = sys.argv[1:]
    acknowledge = Acknowledge(pipe, "made")
    where: dict[str, Any] = {container: place}
    with reenact.session(mode=mode, **where) as session:
        number = 0
        while True:
            step(session, number)
            acknowledge(number)
            number += 1


if __name__ == "__main__":
    main()
