"""What the contract asks of a client, whatever library it is made of.

A client is made of a few plain uses of its library: open one, ask, read piece by piece. Everything
else (several at once, races, cancelling) is made of these, with threads for some and with tasks for
others. No client knows that it is recorded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

__all__ = [
    "FIELD",
    "FILE",
    "FORM",
    "OCTETS",
    "PARAMETERS",
    "PATIENT",
    "VALUE",
    "Answer",
    "Client",
    "Pairs",
    "nothing",
]

Pairs = tuple[tuple[str, str], ...]

FIELD = ("note", "grün")
FILE = ("file", "a.bin", bytes(range(256)))
"""What a multipart upload holds: a field, and a file."""

PARAMETERS = {"q": "a b&ü~", "b": "2", "a": ""}
VALUE = {"text": "grün 蟹", "numbers": [1, 2.5, None]}
FORM = {"b": "x y/ü", "a": "1"}
"""What is asked for with the means of each library: parameters, a JSON value, a form."""

OCTETS = (("Content-Type", "application/octet-stream"),)
PATIENT = 20.0
"""Seconds after which a client gives up that was not told otherwise."""


@dataclass(frozen=True)
class Answer:
    """What a client tells of an answer; ``None`` and ``()`` where it does not."""

    status: int
    headers: Pairs
    body: bytes
    reason: str | None = None
    version: str | None = None


def nothing(piece: bytes) -> None:
    """What is done with a piece that nobody waits for."""


class Client(ABC):
    """One library, used in one way."""

    name: str
    cannot: frozenset[str] = frozenset()
    """Abilities that the library lacks, see :mod:`tests.contract.clients.every`."""

    def fetch(
        self,
        method: str,
        url: str,
        headers: Pairs = (),
        body: bytes | None = None,
        *,
        timeout: float = PATIENT,
    ) -> Answer:
        """One request with a client of its own. Redirects are not followed."""
        return self._fetch(method, url, headers, body, timeout)

    @abstractmethod
    def _fetch(self, method: str, url: str, headers: Pairs, body: Any, timeout: float) -> Answer:
        """The same."""

    @abstractmethod
    def fetch_all(self, urls: list[str]) -> list[Answer]:
        """One after another, with one client."""

    def read(
        self,
        url: str,
        seen: Callable[[bytes], None] = nothing,
        *,
        stop: int | None = None,
        raw: bool = False,
        timeout: float = PATIENT,
    ) -> list[bytes]:
        """Piece by piece; ``seen`` gets each of them at once. Stops after ``stop`` pieces.

        With ``raw`` as it came over the wire, else decoded.
        """
        found: list[bytes] = []

        def goes_on(piece: bytes) -> bool:
            found.append(piece)
            seen(piece)
            return len(found) != stop

        self._read(url, goes_on, raw, timeout)
        return found

    @abstractmethod
    def _read(self, url: str, goes_on: Callable[[bytes], bool], raw: bool, timeout: float) -> None:
        """Piece by piece, until the end or until ``goes_on`` says no."""

    @abstractmethod
    def glance(self, url: str) -> int:
        """The status of an answer whose body is left alone."""

    @abstractmethod
    def leave(self, url: str, other: str) -> tuple[bytes, Answer]:
        """A first piece of ``url``, and then ``other`` with the same client."""

    @abstractmethod
    def read_in_turn(self, urls: list[str]) -> list[bytes]:
        """All of them open, a piece of the first, a piece of the second, until all have ended."""

    @abstractmethod
    def read_at_once(self, urls: list[str]) -> list[list[bytes]]:
        """Each of them in a thread or a task of its own."""

    @abstractmethod
    def upload(self, url: str, pieces: list[bytes]) -> Answer:
        """POST a body that is made while it is sent."""

    @abstractmethod
    def multipart(self, url: str) -> Answer:
        """POST ``FIELD`` and ``FILE``."""

    @abstractmethod
    def send_file(self, url: str, file: BinaryIO) -> Answer:
        """PUT what is in an open file."""

    @abstractmethod
    def convenient(self, url: str) -> list[bytes]:
        """GET with ``PARAMETERS``, POST ``VALUE``, POST ``FORM``: as the library writes them."""

    @abstractmethod
    def follow(self, method: str, url: str) -> list[Answer]:
        """With redirects: every answer that the library shows, the last one at the end."""

    @abstractmethod
    def brief(self, url: str) -> bytes:
        """The body, in the shortest way that the library has."""

    @abstractmethod
    def parallel(self, urls: list[str]) -> list[Answer]:
        """All at once; the answers in the order of ``urls``."""

    @abstractmethod
    def completed(self, urls: list[str]) -> list[Answer]:
        """All at once; the answers in the order in which they come."""

    @abstractmethod
    def race(self, urls: list[str], decided: Callable[[], None]) -> list[bool]:
        """All at once, until the first is there: which one was it?

        A task that lost is cancelled; a thread is waited for, after ``decided``.
        """
