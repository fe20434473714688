"""How much a cassette holds, and whether more may come."""

from __future__ import annotations

from reenact.errors import RrError
from reenact.policy.rules import Budgets
from reenact.rr.cfg import LIMITS
from reenact.rr.entries import Entry
from reenact.rr.numbers import (
    OVER_CASSETTE_BYTES,
    OVER_ENTRIES,
    OVER_KEY_BYTES,
    OVER_REQ_BYTES,
    OVER_RESP_BYTES,
)

__all__ = ["Meter", "tighter"]

_NUMBERS = dict(
    zip(
        LIMITS,
        (OVER_CASSETTE_BYTES, OVER_ENTRIES, OVER_REQ_BYTES, OVER_RESP_BYTES, OVER_KEY_BYTES),
        strict=True,
    )
)


def tighter(one: Budgets, other: Budgets) -> Budgets:
    """The budgets that keep within both."""
    both = ((field, getattr(one, field), getattr(other, field)) for field in LIMITS.values())
    return Budgets(
        **{field: min((n for n in pair if n is not None), default=None) for field, *pair in both}
    )


class Meter:
    """Counts the entries of a cassette and their bytes, as they stand in the file.

    The bytes are those of the events' payloads, large ones that lie beside the file included;
    what the container adds is not counted.
    """

    def __init__(self, budgets: Budgets) -> None:
        self.entries = 0
        self.bytes = 0
        self._budgets = budgets

    def check(self, entry: Entry, size: int, place: str) -> None:
        """May ``entry``, whose payload has ``size`` bytes, come? Raises 2003 to 2007."""
        self.check_key(entry.key, place)
        self._check("max_req_bytes", len(entry.req), place)
        self._check("max_resp_bytes", len(entry.resp), place)
        self._check("max_entries", self.entries + 1, place)
        self._check("max_cassette_bytes", self.bytes + size, place)

    def check_key(self, key: bytes, place: str) -> None:
        """May a key be so long? Raises 2007."""
        self._check("max_key_bytes", len(key), place)

    def add(self, size: int) -> None:
        """An entry has come."""
        self.entries += 1
        self.bytes += size

    def _check(self, name: str, actual: int, place: str) -> None:
        limit: int | None = getattr(self._budgets, LIMITS[name])
        if limit is not None and actual > limit:
            raise RrError(
                _NUMBERS[name],
                f"{place}: {name} is {limit}, and this needs {actual}",
                hint=f"make it smaller, or raise {name}; the smaller limit of cfg and policy holds",
            )
