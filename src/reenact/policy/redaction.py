"""Taking the secrets out of a value before it leaves the process.

The gate (fast, over-approximating) decides whether the exact pass needs to run; the exact pass
replaces; a last scan of the encoded bytes looks for survivors, so that what slipped through is
refused rather than written. A replacement is always whole: never a partial mask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from itertools import chain
from typing import Any, Literal

import msgspec

from reenact.errors import UsageError
from reenact.policy.charsets import wide_forms
from reenact.policy.gate import Engine, Gate, Verdict
from reenact.policy.known import Known
from reenact.policy.names import names_with
from reenact.policy.payloads import embedded, streams
from reenact.policy.placeholder import PLACEHOLDER, blind
from reenact.policy.shapes import SHAPES
from reenact.policy.streams import decoded
from reenact.policy.strict import begins_number
from reenact.policy.structure import Leaf
from reenact.policy.texts import Texts, replace
from reenact.policy.walk import Walk

__all__ = ["PLACEHOLDER", "Mark", "Profile", "Redacted", "Redactor", "blind"]

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
                f"there is no redaction profile {profile!r}", hint=f"one of {', '.join(_PROFILES)}"
            )
        self.profile: Profile = profile
        self._salt = salt
        self._names = names_with(tuple(secret_names), tuple(not_secret_names))
        self._known = Known(declared, environ or {}, self._names)
        self._gate = Gate(self._names, engine=engine)
        self._shape_gate = Gate(engine=engine, shapes_only=True)
        self._texts = Texts(self._names, self._known, strict=profile == "strict")
        self._compared: frozenset[str] = frozenset()

    def comparing(self, headers: Iterable[str]) -> Redactor:
        """The same, for calls that are compared by these headers, too: under ``strict`` they keep
        their values as headers on the list of harmless ones do, and may look random. A secret is
        one all the same, by its name or by its shape."""
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
        other._texts = Texts(other._names, self._known, strict=self.profile == "strict")
        return other

    def under(self, profile: Profile) -> Redactor:
        """The same names and values under another profile."""
        if profile == self.profile:
            return self
        other = copy(self)
        other.profile = profile
        other._texts = Texts(self._names, self._known, strict=profile == "strict")
        return other

    def hides(self, name: str) -> bool:
        """Is what stands under ``name`` secret, whatever it is? Under any profile."""
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
        """How many bytes at the end of a text may be the beginning of a known secret of several
        words."""
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

    def redact(self, value: Any) -> Redacted:
        """The exact pass. ``value`` is made of dict, list, tuple, str, bytes, numbers, bool, None.

        Idempotent: placeholders and pseudonyms are left alone. Where a dict has a secret in a key,
        the key is replaced and the mark is about the whole dict; but a declared value or that of a
        variable stays in a key, for :meth:`survivors` to report. Raises :class:`ValueRefused` for a
        value that is nested deeper than a recording can hold.
        """
        if self.profile == "none":
            return Redacted(value, ())
        walk = Walk(
            self._names,
            self._known,
            self._texts,
            self._salt,
            gate=self._leaf_gate(),
            compared=self._compared,
        )
        new = walk.value(value)
        return Redacted(new, tuple(Mark(*change) for change in walk.changes))

    def text(self, text: str) -> str:
        """``text`` without its secrets: for log lines, exception texts and the screen."""
        if self.profile == "none":
            return text
        return replace(text, self._texts.find(text), self._salt)

    def survivors(self, encoded: bytes) -> tuple[str, ...]:
        """The ids of token shapes and known values that are still in ``encoded``, sorted.

        Looks everywhere, also into the keys of objects, which the exact pass leaves alone. Anything
        but an empty answer means: do not write this.
        """
        if self.profile == "none":
            return ()
        found: set[str] = set()
        for data in (encoded, *embedded(encoded)):
            if self._shape_gate.suspects(data) or self._known.suspects(data):
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
