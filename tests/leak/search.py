"""Search for planted secrets in everything that was written."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field

from reenact import Draft
from tests.leak.planted import Plant


@dataclass
class Planted:
    """One event, and the secrets in it."""

    place: str
    draft: Draft
    plants: list[Plant] = field(default_factory=list)


_BYTES = re.compile(rb'\$bytes\\*":\s*\\*"([A-Za-z0-9+/=]*)')


def decoded(content: bytes) -> Iterator[bytes]:
    for match in _BYTES.finditer(content):
        yield b64decode(match[1])


# Needles are made of these, so that only such runs need to be searched.
_RUN = re.compile(rb"[A-Za-z0-9\-]{12,}")


def leaks(haystack: bytes, planted: list[Planted]) -> list[str]:
    runs = b"\n".join(set(_RUN.findall(haystack)))
    return [
        each.place
        for each in planted
        if any(needle in runs for plant in each.plants for needle in plant.needles())
    ]
