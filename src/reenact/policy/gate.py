"""A fast look that proves most payloads clean, so that the exact pass need not run.

The gate over-approximates: it may fire for nothing, it never misses what the exact pass would
change. Two engines run the same patterns, hyperscan where it is installed and ``re`` behind plain
substring tests where it is not; which one is used changes the speed and nothing else.

Patterns see a payload as canonical JSON or as raw bytes. In JSON a line break is two characters,
a control character six, and a quote inside a string inside a string has three backslashes before
it. An escaped ASCII letter could spell anything: it always fires.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Any, Literal, Protocol

import msgspec

from reenact.errors import ExtraMissing
from reenact.policy.names import Names, Stem
from reenact.policy.searched import probe, words_in
from reenact.policy.shapes import SHAPES, Shape
from reenact.policy.shelf import shelf_of
from reenact.policy.streams import CHUNKS

__all__ = ["Engine", "Gate", "Pattern", "Verdict"]

Engine = Literal["auto", "hyperscan", "python"]

_BEHIND_NAME = r"[ \t]*(?:\\+[t\"']|[\"':=%]|$)"
# Part by part: two dashes in a row start another flag, so that a line of dashes costs no square.
_FLAG_PARTS = r"(?:[a-z0-9_.]+-)*[a-z0-9_.]*"
_STREAM = f'"{CHUNKS}":['.encode()
_SUSPECT_ID, _STREAM_ID = 0, 1


class Pattern(msgspec.Struct, frozen=True):
    """``needs``: no match without one of these in the lower-case data.

    A caseless ``source`` is written in lower case.
    """

    needs: tuple[bytes, ...]
    source: str
    caseless: bool


_ESCAPED_ASCII = Pattern((b"\\u00",), r"\\u00(?:0[9ad]|[2-7][0-9a-f])", True)


class Verdict(IntEnum):
    """CLEAN and STREAMS prove that no name or shape in the bytes as they are makes a secret."""

    CLEAN = 0
    STREAMS = 1
    """But there are chunks, which must be joined and looked at again."""
    SUSPECT = 2


class _Scanner(Protocol):
    def __call__(self, data: bytes, /) -> Verdict: ...


class Gate:
    """Whether some bytes could contain a secret, by name or by shape.

    Safe to share between threads. Compiling is lazy, and once per process and set of names.
    ``engine="hyperscan"`` raises :class:`ExtraMissing` where the package is not installed. With
    ``shapes_only`` names count for nothing: what was replaced under a name is not looked at again.
    """

    def __init__(
        self, names: Names | None = None, *, engine: Engine = "auto", shapes_only: bool = False
    ) -> None:
        self._names = None if shapes_only else names or Names()
        self._engine = engine
        self._scan: _Scanner | None = None

    @property
    def engine(self) -> str:
        """The engine that is really used."""
        return "hyperscan" if isinstance(self._scanner(), _Hyperscan) else "python"

    def look(self, data: bytes) -> Verdict:
        """The verdict on ``data``, canonical JSON or the raw bytes of a leaf."""
        return (self._scan or self._scanner())(data)

    def _scanner(self) -> _Scanner:
        if self._scan is None:
            patterns = _shape_patterns() if self._names is None else _patterns(self._names)
            self._scan = _ENGINES[self._engine](patterns)
        return self._scan

    def suspects(self, data: bytes) -> bool:
        """Whether ``data`` as it is could make the exact pass change something."""
        return self.look(data) is Verdict.SUSPECT


def _shape_patterns() -> tuple[Pattern, ...]:
    return (*map(_of_shape, SHAPES), _ESCAPED_ASCII)


def _patterns(names: Names) -> tuple[Pattern, ...]:
    words = "|".join(sorted({re.escape(stem.needs[-1]) for stem in names.stems}))
    return (
        *_shape_patterns(),
        *_of_stems(names.stems),
        Pattern((b"--",), rf"--{_FLAG_PARTS}(?:{words})", True),
        Pattern((b"form-data",), r"form-data.{0,24}name(?:=|%3d)[^\s\"'\\%]", True),
        Pattern((b"@",), r":\\*/\\*/[^/?#\"'<>\\@\x00-\x20]+@", True),
        Pattern((b"%40",), r":(?:\\*/|%2f){2}[^/?#\"'<>\\@\x00-\x20]+%40", True),
        Pattern((b"%3a%2f%2f",), r"%3a%2f%2f[^/?#\"'<>\\@\x00-\x20]+(?:%40|@)", True),
        Pattern((b"%",), r"%(?:2[5de]|3[0-9]|4[1-9a-f]|5[0-9abdf]|6[1-9a-f]|7[0-9a])", True),
    )


def _of_shape(shape: Shape) -> Pattern:
    needs = shape.gate_needs or shape.needs
    return Pattern(tuple(need.encode() for need in needs), shape.gate, shape.caseless)


def _of_stems(stems: tuple[Stem, ...]) -> Iterator[Pattern]:
    """One pattern for each first word: both engines are faster with few."""
    by_word: dict[str, list[str]] = {}
    for stem in stems:
        by_word.setdefault(stem.needs[0], []).append(stem.gate())
    for word, sources in by_word.items():
        yield Pattern((word.encode(),), f"(?:{'|'.join(sources)}){_BEHIND_NAME}", caseless=True)


@lru_cache(maxsize=32)
def _python(patterns: tuple[Pattern, ...]) -> _Scanner:
    """Substring tests on the set of words, then on the data; an expression only in doubt.

    Payloads repeat their words, so the set is small. Not one alternation of everything: that is
    slower than all of its parts together.
    """
    probes: dict[str, list[_Candidate]] = {}
    for pattern in patterns:
        for need in pattern.needs:
            candidate = (need, pattern.caseless, re.compile(pattern.source.encode()))
            probes.setdefault(probe(need), []).append(candidate)

    def scan(data: bytes) -> Verdict:
        words = words_in(data)
        low = data.lower()
        for word, candidates in probes.items():
            if word in words and any(_matches(one, data, low) for one in candidates):
                return Verdict.SUSPECT
        return Verdict.STREAMS if _STREAM in data else Verdict.CLEAN

    return scan


_Candidate = tuple[bytes, bool, re.Pattern[bytes]]


def _matches(candidate: _Candidate, data: bytes, low: bytes) -> bool:
    need, caseless, pattern = candidate
    return need in low and pattern.search(low if caseless else data) is not None


@lru_cache(maxsize=32)
def _hyperscan(patterns: tuple[Pattern, ...]) -> _Scanner:
    hyperscan = _import_hyperscan()
    if hyperscan is None:
        raise ExtraMissing("the hyperscan engine", "fast")
    return _Hyperscan(_database(hyperscan, patterns), hyperscan.ScanTerminated)


def _database(hyperscan: Any, patterns: tuple[Pattern, ...]) -> Any:
    """The compiled patterns: of an earlier process, if it kept them."""
    once = hyperscan.HS_FLAG_SINGLEMATCH
    caseless = hyperscan.HS_FLAG_CASELESS | once
    expressions = [*(pattern.source.encode() for pattern in patterns), re.escape(_STREAM)]
    ids = [*(_SUSPECT_ID for _ in patterns), _STREAM_ID]
    flags = [*(caseless if pattern.caseless else once for pattern in patterns), once]
    made_of = repr((hyperscan.__version__, expressions, ids, flags)).encode()
    name, shelf = hashlib.sha256(made_of).hexdigest(), shelf_of(os.environ)
    kept = shelf.get(name)
    if kept is not None:
        try:
            database = hyperscan.loadb(kept, hyperscan.HS_MODE_BLOCK)
            database.scratch = hyperscan.Scratch(database)
            return database
        except hyperscan.error:
            pass  # made on a processor that can do more than this one
    database = hyperscan.Database()
    database.compile(expressions=expressions, ids=ids, elements=len(ids), flags=flags)
    shelf.keep(name, hyperscan.dumpb(database))
    return database


def _fastest(patterns: tuple[Pattern, ...]) -> _Scanner:
    hyperscan = _import_hyperscan()
    if hyperscan is None:
        return _python(patterns)
    try:
        return _hyperscan(patterns)
    except hyperscan.error:  # a processor it does not know, or names too many for one database
        return _python(patterns)


def _import_hyperscan() -> Any:
    try:
        return importlib.import_module("hyperscan")
    except ImportError:
        return None


class _Hyperscan:
    """One database, and a scratch space for each thread that is scanning at the moment."""

    def __init__(self, database: Any, terminated: type[Exception]) -> None:
        self._database = database
        self._terminated = terminated
        self._spare: deque[Any] = deque()

    def __call__(self, data: bytes, /) -> Verdict:
        try:
            scratch = self._spare.pop()
        except IndexError:
            scratch = self._database.scratch.clone()
        found: list[int] = []
        try:
            self._database.scan(data, match_event_handler=_met, context=found, scratch=scratch)
        except self._terminated:
            return Verdict.SUSPECT
        finally:
            self._spare.append(scratch)
        return Verdict.STREAMS if found else Verdict.CLEAN


def _met(pattern: int, _start: int, _end: int, _flags: int, found: list[int]) -> bool:
    """Called for each match; True ends the scan."""
    found.append(pattern)
    return pattern == _SUSPECT_ID


_ENGINES: dict[Engine, Callable[[tuple[Pattern, ...]], _Scanner]] = {
    "auto": _fastest,
    "hyperscan": _hyperscan,
    "python": _python,
}
