"""Who waits for a delivery, by what they wait for."""

from __future__ import annotations

from collections import deque
from math import inf

from reenact.engine.order import Token
from reenact.engine.waiter import Waiter

__all__ = ["Waiters"]


class Waiters:
    """The session's lock covers every use.

    ``by_token`` wait for something that is ahead in the order, ``late`` for what it has gone past,
    ``never`` for what was never answered.
    """

    def __init__(self) -> None:
        self.by_token: dict[Token, Waiter] = {}
        self.never: dict[Waiter, None] = {}
        self.late: deque[Waiter] = deque()

    def add(self, waiter: Waiter, *, late: bool) -> None:
        """``waiter`` waits from now on; ``late``: the order has gone past what it waits for."""
        if waiter.token is None:
            self.never[waiter] = None
        elif late:
            self.late.append(waiter)
        else:
            self.by_token[waiter.token] = waiter

    def remove(self, waiter: Waiter) -> None:
        """It does not any more, if it did."""
        self.never.pop(waiter, None)
        if waiter.token is not None and self.by_token.get(waiter.token) is waiter:
            del self.by_token[waiter.token]
        elif waiter in self.late:
            self.late.remove(waiter)

    def all(self) -> list[Waiter]:
        """Everybody; first the calls whose answers were recorded first."""
        everybody = [*self.by_token.values(), *self.late, *self.never]
        return sorted(everybody, key=_place)

    def __bool__(self) -> bool:
        return bool(self.by_token or self.never or self.late)

    def first(self) -> Waiter | None:
        """The call that waits with the lowest seq, else one that is never answered."""
        calls = [token for token, one in self.by_token.items() if one.ask is not None]
        answers = [token for token in calls if isinstance(token, int)]
        if answers:
            return self.by_token[min(answers)]
        if calls:
            return self.by_token[calls[0]]
        return next(iter(self.never), None)

    def clear(self) -> None:
        """Nobody is left."""
        self.by_token.clear()
        self.never.clear()
        self.late.clear()


def _place(waiter: Waiter) -> float:
    return waiter.token if isinstance(waiter.token, int) else inf
