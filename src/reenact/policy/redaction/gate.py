"""Fast pre-check that proves most payloads free of secrets, so that the exact pass can be skipped.

The gate over-approximates: it can fire without a reason, but it never misses a value that the exact
pass would change. Two engines run the same patterns: hyperscan where it is installed, otherwise
``re`` behind plain substring tests. The engine only affects the speed.

Patterns see a payload as canonical JSON or as raw bytes. In JSON a line break is two characters,
a control character is six, and a quote inside a nested string has three backslashes in front of it.
An escaped ASCII letter could spell anything, so it always fires.

Compiling takes a fifth of a second, so compiled patterns are cached between processes. The cache
holds patterns, never a value that was searched for. An attacker with write access to the folder could
switch redaction off, so the cache is only used if its folder and its files belong to the same user
and no other user can write to them. A cache failure is never an error: the patterns are compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from reenact.errors import ExtraMissing
from reenact.policy.redaction.command_lines import GATE_FLAG, GATE_NET, PROGRAMS, gate_program
from reenact.policy.redaction.names import Names, Stem
from reenact.policy.redaction.prescan import Clue, ClueIndex, WordIndex, clue_of
from reenact.policy.redaction.structure import CHUNKS, GATE_ESCAPED, GATE_RAW
from reenact.policy.redaction.tokens import GATE_EDGE, SHAPES, Shape

__all__ = ["Engine", "Gate", "Pattern", "PatternCache", "Verdict", "pattern_cache"]

Engine = Literal["auto", "hyperscan", "python"]

# Behind a name in XML: the end of the tag, the closing tag of an element for names, or an attribute.
_ATTRIBUTE = r"(?:\s|\\+[nrt])+[a-z_][a-z0-9_.:-]*\s*(?:=|%3d)"
_PAIR = r"(?:\s|\\+[nrt])*<\\*/(?:key|name)"
_BEHIND_NAME = rf"(?:[ \t]*(?:\\+[t\"']|[\"':=%]|/?>|/?&gt;|$)|(?:\s|\\+[nrt])+/?(?:>|&gt;)|{_PAIR}|{_ATTRIBUTE})"
# Part by part: two dashes in a row start another flag, so that a line of dashes costs no square.
_FLAG_PARTS = r"(?:[a-z0-9_.]+-)*[a-z0-9_.]*"
_STREAM = f'"{CHUNKS}":['.encode()
_SUSPECT_ID, _STREAM_ID, _THEN_ID = 0, 1, 2
_LONGEST_EDGE = len(r"\u0000")


class Pattern(msgspec.Struct, frozen=True):
    """``clues``: no match where none of these fits.

    A caseless ``source`` is written in lower case. With ``then``, only if that matches behind it, too,
    however far, starting with its last character, and if ``within`` is in the data. ``edge``: a match
    starts at most six characters before a need, with the edge of a word, which ``re`` finds slowly.
    """

    clues: tuple[Clue, ...]
    source: str
    caseless: bool
    then: str = ""
    within: str = ""
    edge: bool = False


def _caseless(source: str, *needs: str) -> Pattern:
    """No match without one of ``needs`` in the lower-case data."""
    return Pattern(tuple(map(clue_of, needs)), source, caseless=True)


# Fields next to the `code` of OAuth. As a URL parameter, `code` alone is suspect.
_BESIDE_CODE = (
    r"(?:redirect[-_. ]?uri|grant[-_. ]?type|code[-_. ]?verifier)\\*[\"']"
    r"|\[\\*[\"'](?:state|iss)\\*[\"']"
)
_ESCAPED_ASCII = _caseless(r"\\u00(?:0[9ad]|[2-7][0-9a-f])", "\\u00")

_PROGRAM_PATTERNS = tuple(
    Pattern(*gate_program(name), caseless=True, then=GATE_FLAG, within=program.within, edge=True)
    for name, program in PROGRAMS.items()
)
_NET = Pattern((clue_of("net", leads=True),), GATE_NET, caseless=True, edge=True)
_WIDE = (_caseless(GATE_RAW, "\x00"), _caseless(GATE_ESCAPED, "u0000"))


_SPARED = 2_048
"""Bytes in a process that are searched exactly. Many programs never record more."""


class Verdict(IntEnum):
    """CLEAN and STREAMS prove that no name or shape in the bytes as they are makes a secret."""

    CLEAN = 0
    STREAMS = 1
    """But there are chunks, which must be joined and looked at again."""
    SUSPECT = 2


class _Scanner(Protocol):
    def __call__(self, data: bytes, /) -> Verdict: ...


class Gate:
    """Pre-check that decides whether bytes could contain a secret, by name or by shape.

    Safe to share between threads. Compiling is lazy, and happens once per process and set of names.
    ``engine="hyperscan"`` raises :class:`ExtraMissing` if the package is not installed. With
    ``shapes_only`` names are ignored, because values under a name have already been replaced.
    """

    def __init__(
        self, names: Names | None = None, *, engine: Engine = "auto", shapes_only: bool = False
    ) -> None:
        self._names = None if shapes_only else names or Names()
        self._engine = engine
        self._scan: _Scanner | None = None
        self._spared = _SPARED if engine == "auto" else 0

    def spares(self, size: int) -> bool:
        """Return whether searching ``size`` bytes takes less time than loading the patterns.

        That is so until a few small payloads were asked for, or the patterns are loaded.
        """
        if self._scan is not None or size > self._spared:
            return False
        self._spared -= size
        return True

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
        """Return whether the exact pass could change ``data``."""
        return self.look(data) is Verdict.SUSPECT


def _shape_patterns() -> tuple[Pattern, ...]:
    return (*map(_of_shape, SHAPES), _ESCAPED_ASCII, *_WIDE)


def _patterns(names: Names) -> tuple[Pattern, ...]:
    words = "|".join(sorted({re.escape(stem.needs[-1]) for stem in names.stems}))
    return (
        *_shape_patterns(),
        *_of_stems(names.stems),
        _caseless(rf"--{_FLAG_PARTS}(?:{words})", "--"),
        *_PROGRAM_PATTERNS,
        _NET,
        _caseless(r"code(?:=|%3d)", "code=", "code%3d"),
        _caseless(_BESIDE_CODE, "redirect", "grant", "verifier", '["state', '["iss'),
        _caseless(r"form-data.{0,24}name(?:=|%3d)[^\s\"'\\%]", "form-data"),
        _caseless(r":\\*/\\*/[^/?#\"'<>\\@\x00-\x20]+@", "@"),
        _caseless(r":(?:\\*/|%2f){2}[^/?#\"'<>\\@\x00-\x20]+%40", "%40"),
        _caseless(r"%3a%2f%2f[^/?#\"'<>\\@\x00-\x20]+(?:%40|@)", "%3a%2f%2f"),
        _caseless(r"%7c[a-z0-9_\-]{27}", "%7c"),
        _caseless(r"%(?:2[5de]|3[0-9]|4[1-9a-f]|5[0-9abdf]|6[1-9a-f]|7[0-9a])", "%"),
    )


def _of_shape(shape: Shape) -> Pattern:
    clues = tuple(map(clue_of, shape.gate_needs)) or tuple(shape.clues())
    return Pattern(clues, shape.gate, shape.caseless, edge=shape.gate.startswith(GATE_EDGE))


def _of_stems(stems: tuple[Stem, ...]) -> Iterator[Pattern]:
    """One pattern for each first word: both engines are faster with few."""
    by_word: dict[tuple[str, bool], list[Stem]] = {}
    for stem in stems:
        by_word.setdefault((stem.needs[0], stem.is_word), []).append(stem)
    for (word, is_word), group in by_word.items():
        behind = f"(?i:{_BEHIND_NAME})" if is_word else _BEHIND_NAME
        source = f"(?:{'|'.join(stem.gate() for stem in group)}){behind}"
        ends = tuple(sorted({end for stem in group for end in stem.ends}))
        known = ends if all(stem.ends for stem in group) else ()
        yield Pattern((clue_of(word, ends=known),), source, caseless=not is_word, edge=is_word)


class _Candidate(msgspec.Struct, frozen=True):
    """A pattern with one of its needs."""

    need: bytes
    caseless: bool
    pattern: re.Pattern[bytes]
    then: re.Pattern[bytes] | None
    within: bytes
    edge: bool

    def matches(self, data: bytes, low: bytes) -> bool:
        """Return whether ``data`` is suspect. ``low`` is its lower-case form and contains the
        required text.
        """
        searched = low if self.caseless else data
        found = self._at_edge(searched, low) if self.edge else self.pattern.search(searched)
        if found is None or self.then is None:
            return found is not None
        return self.within in low and self.then.search(searched, found.end() - 1) is not None

    def _at_edge(self, searched: bytes, low: bytes) -> re.Match[bytes] | None:
        place = low.find(self.need)
        while place >= 0:
            for start in range(max(0, place - _LONGEST_EDGE), place + 1):
                found = self.pattern.match(searched, start)
                if found is not None:
                    return found
            place = low.find(self.need, place + 1)
        return None


def _candidates(pattern: Pattern) -> Iterator[tuple[Clue, _Candidate]]:
    then = re.compile(pattern.then.encode()) if pattern.then else None
    compiled = re.compile(pattern.source.encode())
    for clue in pattern.clues:
        need, within = clue.need.encode(), pattern.within.encode()
        yield clue, _Candidate(need, pattern.caseless, compiled, then, within, pattern.edge)


@lru_cache(maxsize=1_024)
def _second_steps(pattern: Pattern) -> tuple[_Candidate, ...]:
    """Compile what must follow a match of ``pattern``.

    Only when it is needed: compiling all of them takes longer than starting the interpreter.
    """
    return tuple(candidate for _, candidate in _candidates(pattern))


@lru_cache(maxsize=32)
def _python(patterns: tuple[Pattern, ...]) -> _Scanner:
    """Looks into an index of the words, then for substrings; an expression only in doubt.

    Not one alternation of everything: that is slower than all of its parts together.
    """
    candidates = ClueIndex(one for pattern in patterns for one in _candidates(pattern))

    def is_suspect(data: bytes) -> bool:
        low = data.lower()
        fitting = candidates.fitting(WordIndex(low), low.decode("latin-1"))
        return any(candidate.matches(data, low) for candidate in fitting)

    def scan(data: bytes) -> Verdict:
        # The headers of a request stand around its body, and most of what is suspect is in them.
        if (len(data) > 8 * _RIM and is_suspect(_rim(data))) or is_suspect(data):
            return Verdict.SUSPECT
        return Verdict.STREAMS if _STREAM in data else Verdict.CLEAN

    return scan


_RIM = 1_024
"""Bytes at both ends of long data."""


def _rim(data: bytes) -> bytes:
    """Both ends of ``data``, cut at quotes, so that no name and no word has an end that it does not have."""
    head = data[: data.rfind(b'"', 0, _RIM) + 1]
    tail = data.find(b'"', len(data) - _RIM)
    return head + b" " + (data[tail:] if tail >= 0 else b"")


@lru_cache(maxsize=32)
def _hyperscan(patterns: tuple[Pattern, ...]) -> _Scanner:
    hyperscan = _import_hyperscan()
    if hyperscan is None:
        raise ExtraMissing("the hyperscan engine", "fast")
    return _Hyperscan(_database(hyperscan, patterns), hyperscan.ScanTerminated, patterns)


def _database(hyperscan: Any, patterns: tuple[Pattern, ...]) -> Any:
    """The compiled patterns: of an earlier process, if it kept them."""
    once = hyperscan.HS_FLAG_SINGLEMATCH
    caseless = hyperscan.HS_FLAG_CASELESS | once
    expressions = [*(pattern.source.encode() for pattern in patterns), re.escape(_STREAM)]
    ids = [*_ids(patterns), _STREAM_ID]
    flags = [*(caseless if pattern.caseless else once for pattern in patterns), once]
    made_of = repr((hyperscan.__version__, expressions, ids, flags)).encode()
    name, shelf = hashlib.sha256(made_of).hexdigest(), pattern_cache(os.environ)
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


def _ids(patterns: tuple[Pattern, ...]) -> Iterator[int]:
    """One id for all patterns that suffice, and one for each with a second step."""
    return (_THEN_ID + at if one.then else _SUSPECT_ID for at, one in enumerate(patterns))


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
    """One database, and a scratch space for each thread that is currently scanning.

    Text that must follow a match of some patterns is searched with ``re``, because such a match is
    rare.
    """

    def __init__(
        self, database: Any, terminated: type[Exception], patterns: tuple[Pattern, ...]
    ) -> None:
        self._database = database
        self._terminated = terminated
        self._two_step = {
            number: pattern
            for number, pattern in zip(_ids(patterns), patterns, strict=True)
            if pattern.then
        }
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
        steps = [number for number in found if number >= _THEN_ID]
        if steps:
            low = data.lower()
            for number in steps:
                if any(
                    one.need in low and one.matches(data, low)
                    for one in _second_steps(self._two_step[number])
                ):
                    return Verdict.SUSPECT
        return Verdict.STREAMS if _STREAM_ID in found else Verdict.CLEAN


def _met(pattern: int, _start: int, _end: int, _flags: int, found: list[int]) -> bool:
    """Called for each match; True ends the scan."""
    found.append(pattern)
    return pattern == _SUSPECT_ID


_ENGINES: dict[Engine, Callable[[tuple[Pattern, ...]], _Scanner]] = {
    "auto": _fastest,
    "hyperscan": _hyperscan,
    "python": _python,
}


_MOST = 16
"""Files. There is one for each set of names, and for each version of what compiles them."""

_LARGEST = 32 * 1024 * 1024
_DIGEST = hashlib.sha256().digest_size
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


def pattern_cache(environ: Mapping[str, str]) -> PatternCache:
    """The shelf of this user. An empty variable counts as unset."""
    own, shared, home = map(environ.get, ("REENACT_CONFIG_DIR", "XDG_CACHE_HOME", "HOME"))
    if own:
        return PatternCache(Path(own) / "compiled")
    if shared:
        return PatternCache(Path(shared) / "reenact")
    return PatternCache(Path(home) / ".cache" / "reenact" if home else None)


class PatternCache:
    """A folder of things that can be made again; with None, one that keeps nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str) -> bytes | None:
        """Return the cached content of ``name``."""
        if self._folder is None or not _is_own(self._folder):
            return None
        try:
            return _whole(_read(self._folder / name))
        except OSError:
            return None

    def keep(self, name: str, content: bytes) -> None:
        """Keep ``content`` as ``name``, and drop what is oldest when there is too much."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            if _is_own(self._folder):
                _write(self._folder / name, hashlib.sha256(content).digest() + content)
                _tidy(self._folder)


def _is_own(folder: Path) -> bool:
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and _is_private(found)


def _is_private(found: os.stat_result) -> bool:
    """Return whether this user owns it and no other user can write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & _OTHERS


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    with open(descriptor, "rb") as file:
        return file.read(_LARGEST) if _is_private(os.fstat(descriptor)) else b""


def _whole(content: bytes) -> bytes | None:
    digest, rest = content[:_DIGEST], content[_DIGEST:]
    return rest if hashlib.sha256(rest).digest() == digest else None


def _write(path: Path, content: bytes) -> None:
    """Write to a temporary file and rename it. If another thread is writing it, leave it to that
    thread.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _tidy(folder: Path) -> None:
    by_age = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    for path in by_age[:-_MOST]:
        path.unlink(missing_ok=True)
