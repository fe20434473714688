"""Server-sent events, as the HTML standard has them, from a body that is all there or breaks off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Sent", "events"]

_BOM = b"\xef\xbb\xbf"


class Sent(NamedTuple):
    """One event: its ``event`` field (empty where there is none) and its data."""

    name: str
    data: str


def events(body: bytes) -> Iterator[Sent]:
    """The events of ``body`` that have data and were sent to their end.

    Lines end with CR, LF or both; bytes that are not UTF-8 are replaced. What is behind the last
    empty line was cut off, and clients do not get to see it either.
    """
    name = ""
    data: list[str] = []
    for line in _lines(body):
        if not line:
            if data:
                yield Sent(name, "\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ")


def _lines(body: bytes) -> list[str]:
    """Without the last one, which is not ended."""
    whole = body.removeprefix(_BOM)
    if b"\r" in whole:
        whole = whole.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return whole.decode("utf-8", "replace").split("\n")[:-1]
