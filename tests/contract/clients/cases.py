"""The marks that run a test with one client after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from tests.conftest import SOAK
from tests.contract.clients.every import able

__all__ = ["every", "some_with"]

T = TypeVar("T")
_STEPS = (0, 1, 4)


def every(*abilities: str) -> Any:
    """The test is run with every client that can do this."""
    clients = able(*abilities)
    return pytest.mark.parametrize("client", clients, ids=[client.name for client in clients])


def some_with(one: T, group: Sequence[T]) -> list[T]:
    """Who replays what ``one`` has recorded: in ``make soak`` the whole group. Else ``one`` itself,
    its neighbour, and one further on, with the group as a ring: so each records for three, and
    replays what three have recorded."""
    if SOAK:
        return list(group)
    at = group.index(one)
    return [group[(at + step) % len(group)] for step in _STEPS]
