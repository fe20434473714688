"""The redactor: removes secrets from a value before it leaves the process.

The gate decides whether the exact pass needs to run. The exact pass replaces secrets. A last scan of
the encoded bytes looks for survivors, so that a missed secret is refused and not written. A value is
always replaced completely, never masked in part.

A secret in a growing text can begin in one piece of a stream and end in another. A :class:`Screen`
therefore releases text up to a word boundary, and only while the gate finds no secret in all of it.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import chain
from typing import Any, Literal

import msgspec
import orjson

from reenact.errors import UsageError
from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.gate import Engine, Gate, Verdict
from reenact.policy.redaction.known_values import KnownValues
from reenact.policy.redaction.names import names_with
from reenact.policy.redaction.placeholder import PLACEHOLDER, blind
from reenact.policy.redaction.strict import begins_number
from reenact.policy.redaction.structure import (
    CHUNKS,
    Leaf,
    decoded,
    payload_key,
    pieces,
    wide_forms,
)
from reenact.policy.redaction.text import TextScanner, replace
from reenact.policy.redaction.tokens import SHAPES
from reenact.policy.redaction.walk import Walk

__all__ = [
    "PLACEHOLDER",
    "Mark",
    "Profile",
    "Redacted",
    "Redactor",
    "Screen",
    "blind",
    "embedded",
    "streams",
]

Profile = Literal["none", "default", "strict"]

_PROFILES = ("none", "default", "strict")
_RULES = ("name", "cookie", "url.userinfo", "command", "declared", "env")
_STRICT_RULES = ("email", "card", "iban", "entropy", "header")

# Looked up once: they are compared for every event.
_CLEAN, _SUSPECT = Verdict.CLEAN, Verdict.SUSPECT
_DOLLAR = ord("$")


class Mark(msgspec.Struct, frozen=True):
    """One leaf that was changed, or one dict with a key that was. ``original`` is all of it: memory
    only, never in a repr."""

    path: str
    rule: str
    original: Leaf | dict[Any, Any]

    def __repr__(self) -> str:
        return f"Mark(path={self.path!r}, rule={self.rule!r})"


class Redacted(msgspec.Struct, frozen=True):
    """``value`` shares with the input what did not change; ``marks`` are in walking order."""

    value: Any
    marks: tuple[Mark, ...]


class Redactor:
    """The redaction of one session. Immutable after construction; safe to share between threads.

    ``declared`` are secret values; ``environ`` is searched for variables with secret names, whose
    values are then secret wherever they appear; the two lists of names extend the built-in ones.
    With ``salt`` equal secrets get equal pseudonyms. Raises :class:`UsageError` for an unknown
    profile and for a declared value that is too short to be searched for.
    """

    def __init__(
        self,
        profile: Profile = "default",
        *,
        salt: bytes | None = None,
        declared: Iterable[str] = (),
        environ: Mapping[str, str] | None = None,
        not_secret_names: Iterable[str] = (),
        secret_names: Iterable[str] = (),
        engine: Engine = "auto",
    ) -> None:
        if profile not in _PROFILES:
            raise UsageError(
                f"unknown redaction profile {profile!r}", hint=f"one of {', '.join(_PROFILES)}"
            )
        self.profile: Profile = profile
        self._salt = salt
        self._names = names_with(tuple(secret_names), tuple(not_secret_names))
        self._known = KnownValues(declared, environ or {}, self._names)
        self._gate = Gate(self._names, engine=engine)
        self._shape_gate = Gate(engine=engine, shapes_only=True)
        self._texts = TextScanner(self._names, self._known, strict=profile == "strict")
        self._compared: frozenset[str] = frozenset()

    def comparing(self, headers: Iterable[str]) -> Redactor:
        """Return a redactor for calls that are compared by these headers too.

        Under ``strict`` they keep their values like headers on the list of harmless ones, even if
        they look random. A secret by name or by shape is still redacted.
        """
        names = frozenset(name.lower() for name in headers)
        if names == self._compared:
            return self
        other = copy(self)
        other._compared = names
        return other

    def without_excuses(self) -> Redactor:
        """A redactor that also removes harmless values under ambiguous names.

        Requests are compared with it: a token that was recorded is a placeholder, and the one of a
        replay may be a word such as ``test``.
        """
        other = copy(self)
        other._names = self._names.without_excuses()
        other._texts = TextScanner(other._names, self._known, strict=self.profile == "strict")
        return other

    def under(self, profile: Profile) -> Redactor:
        """Return a redactor with the same names and values under a different profile."""
        if profile == self.profile:
            return self
        other = copy(self)
        other.profile = profile
        other._texts = TextScanner(self._names, self._known, strict=profile == "strict")
        return other

    def hides(self, name: str) -> bool:
        """Return whether every value under ``name`` is secret, under any profile."""
        return self._names.secret(name)

    def suspects(self, encoded: bytes) -> bool:
        """False proves that :meth:`redact` changes nothing in the value encoded here.

        ``encoded`` is canonical JSON (bytes as ``{"$bytes": base64}``) or the raw bytes of a leaf.
        """
        if self.profile != "default":
            return self.profile == "strict"
        verdict = self._gate.look(encoded)
        if verdict is _SUSPECT or (self._known and self._known.suspects(encoded)):
            return True
        if verdict is _CLEAN and _DOLLAR not in encoded:
            return False
        joined = () if verdict is _CLEAN else streams(encoded)
        return any(map(self._is_suspect, chain(embedded(encoded), joined)))

    @property
    def reach(self) -> int:
        """Number of bytes at the end of a text that can be the start of a known secret of several
        words.
        """
        return 0 if self.profile == "none" else self._known.reach

    def clears(self, text: bytes) -> bool:
        """True proves that nothing in ``text``, the raw bytes of a leaf, is a secret, nor up to
        its last blank (but for :attr:`reach` bytes) the beginning of one."""
        if self.profile == "none":
            return True
        if self._is_suspect(text):
            return False
        if self.profile == "default":
            return True
        plain = decoded(text)[0]
        return not (begins_number(plain) or self._texts.find(plain))

    def spares_gate(self, encoded: bytes) -> bool:
        """Return whether :meth:`redact` without the gate is faster for the value encoded here.

        The gate changes no result, but loading it takes longer than the start of the interpreter.
        """
        return self._gate.spares(len(encoded))

    def redact(self, value: Any, *, gated: bool = True) -> Redacted:
        """Run the exact pass over dict, list, tuple, str, bytes, numbers, bool and None.

        Idempotent: placeholders and pseudonyms stay unchanged. A secret in a key of a dict is
        replaced, and the mark covers the complete dict. A declared value or the value of a variable
        stays in a key, and :meth:`survivors` reports it. Raises :class:`ValueRefused` for a value
        that is nested deeper than a recording allows.
        """
        if self.profile == "none":
            return Redacted(value, ())
        walk = Walk(
            self._names,
            self._known,
            self._texts,
            self._salt,
            gate=self._leaf_gate() if gated else None,
            compared=self._compared,
        )
        new = walk.value(value)
        return Redacted(new, tuple(Mark(*change) for change in walk.changes))

    def text(self, text: str) -> str:
        """``text`` without its secrets: for log lines, exception texts and the screen."""
        if self.profile == "none":
            return text
        return replace(text, self._texts.find(text), self._salt)

    def survivors(self, encoded: bytes, *, gated: bool = True) -> tuple[str, ...]:
        """The ids of token shapes and known values that are still in ``encoded``, sorted.

        Looks everywhere, also into the keys of objects, which the exact pass leaves alone. Anything
        but an empty answer means: do not write this.
        """
        if self.profile == "none":
            return ()
        found: set[str] = set()
        for data in (encoded, *embedded(encoded)):
            if not gated or self._shape_gate.suspects(data) or self._known.suspects(data):
                for text in _readings(data):
                    found.update(one.rule for one in self._texts.tokens(text))
        return tuple(sorted(found))

    def describe(self) -> tuple[str, ...]:
        """The ids of the rules in force."""
        if self.profile == "none":
            return ()
        shapes = tuple(shape.id for shape in SHAPES)
        return _RULES + shapes + (_STRICT_RULES if self.profile == "strict" else ())

    def _is_suspect(self, data: bytes) -> bool:
        return self._gate.suspects(data) or self._known.suspects(data)

    def _leaf_gate(self) -> Any:
        """Leaves that cannot hold a secret are not searched; under strict any might."""
        return None if self.profile == "strict" else self._is_suspect


def _readings(data: bytes) -> Iterator[str]:
    """``data`` as text, and what there is of UTF-16 and UTF-32 in it, also where that is a string of
    JSON."""
    yield data.decode("utf-8", "replace")
    raw = data.replace(b"\\u0000", b"\0")
    yield from (text for form in wide_forms(raw) if (text := form.text(raw)))


_BYTES = lazy_pattern(rb'\{"\$bytes":"([A-Za-z0-9+/=]*)"')


def embedded(encoded: bytes) -> Iterator[bytes]:
    """Every bytes leaf of a value in canonical JSON."""
    if b"$" in encoded and b'{"$bytes":"' in encoded:
        for match in _BYTES.finditer(encoded):
            yield _decoded(match[1])


def streams(encoded: bytes) -> Iterator[bytes]:
    """Every list of chunks of a value in canonical JSON, joined."""
    try:
        value = orjson.loads(encoded)
    except orjson.JSONDecodeError:
        return  # not a value but a bytes leaf: its text is searched as it is, nothing is joined
    for chunks in _streams(value):
        parts = pieces([_with_bytes(chunk) for chunk in chunks])
        if parts is not None:
            yield b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)


def _streams(value: Any) -> Iterator[list[Any]]:
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            waiting += here.values()
            if isinstance(here.get(CHUNKS), list):
                yield here[CHUNKS]
        elif isinstance(here, list):
            waiting += here


def _with_bytes(chunk: Any) -> Any:
    """``chunk`` with real bytes where its encoding has a mark for them."""
    if not isinstance(chunk, dict):
        return chunk
    if len(chunk) == 1 and isinstance(chunk.get("$bytes"), str):
        return _decoded(chunk["$bytes"])
    if payload_key(chunk) is not None:
        return chunk
    return {key: _with_bytes(item) for key, item in chunk.items()}


def _decoded(base64: bytes | str) -> bytes:
    try:
        return b64decode(base64)
    except (Base64Error, ValueError):
        return b""


_BLANKS = (b" ", b"\t", b"\r", b"\n")
_CONTEXT = 1_024
"""Bytes before what is new that are looked at again: a name stands before its value."""

_LONGEST = 65_536
"""Bytes of the longest word: it gives itself away by its beginning, if it is a secret."""

_STEP = 8_192
"""Bytes by which a word that has not ended is written, once it is longer than that."""


class Screen:
    """The screen of one stream. Costs time in proportion to what comes, and little space."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._kept = max(_CONTEXT, redactor.reach)
        self._tail = bytearray()
        self._start = 0
        """Position of the tail in the stream."""
        self._blank = 0
        """Behind the last blank of the stream."""
        self._safe = 0
        self._gave_up = False

    def add(self, text: bytes) -> int:
        """``text`` has come. Returns how many bytes of the stream may be written by now."""
        if not self._gave_up:
            end = self._start + len(self._tail)
            last = max(text.rfind(blank) for blank in _BLANKS)
            if last >= 0:
                self._blank = end + last + 1
            self._tail += text
            self._look(end + len(text))
        return self._safe

    def _look(self, size: int) -> None:
        """``size`` bytes have come."""
        wanted = size if self._redactor.profile == "none" else self._wanted(size)
        if wanted <= self._safe:
            return
        if self._redactor.clears(bytes(self._tail)):
            self._safe = wanted
            done = max(0, wanted - self._kept - self._start)
            del self._tail[:done]
            self._start += done
        elif len(self._tail) > 2 * _LONGEST:  # a lasting doubt is not checked forever
            self._gave_up = True
            self._tail.clear()

    def _wanted(self, size: int) -> int:
        """Return the number of characters to release as long as no secret is suspected."""
        long = (size - _LONGEST) // _STEP * _STEP
        return min(max(self._blank, long), size - self._redactor.reach)
