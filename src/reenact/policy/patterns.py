"""Regular expressions that are compiled on first use, and regular expressions of users.

There are a hundred ways to find a secret. Most programs never show one, and each of their
processes would pay for all of them when it starts.

The pattern of a noise rule is untrusted and must not keep a server busy, because Python's engine
backtracks. The number of possible matches is estimated in advance, in bits, because each optional
part doubles it. A pattern is refused if it has too many, repeats an ambiguous part, or looks back
or ahead. Texts longer than :data:`LONGEST` never match.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, AnyStr, Final, cast

from reenact.errors import UsageError

__all__ = ["LONGEST", "check_pattern", "fits", "lazy_pattern"]

LONGEST: Final = 256
"""Maximum length of a text that can match an untrusted pattern."""

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


class _LazyPattern:
    """Stands for a compiled pattern, and then has its methods."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self.pattern: Any = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy_pattern(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """``re.compile(source, flags)``, done when one of its methods is first asked for. A mistake in
    ``source`` shows only then."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(source, flags))


_MOST: Final = 500
_ANY: Final = math.log2(LONGEST)
_MOST_BITS: Final = 24.0
_COUNT: Final = lazy_pattern(r"\{(\d*)(,?)(\d*)\}")
_CLASS: Final = lazy_pattern(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


class _Group:
    """A group that is being read: in how many ways, in bits, and with how many alternatives."""

    __slots__ = ("alternatives", "bits")

    def __init__(self) -> None:
        self.bits = 0.0
        self.alternatives = 1

    def whole(self) -> float:
        return self.bits + math.log2(self.alternatives)


def check_pattern(pattern: str) -> None:
    """Raises :class:`UsageError` unless ``pattern`` can be used."""
    if len(pattern) > _MOST:
        raise _refused(f"it has more than {_MOST} characters")
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise _refused(str(error)) from None
    if _ways(pattern) > _MOST_BITS:
        raise _refused("a text could match it in too many ways: it has too many repetitions")


def fits(pattern: str, text: str) -> bool:
    """Does the whole of ``text`` match? ``pattern`` was checked."""
    return len(text) <= LONGEST and _compiled(pattern).fullmatch(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _ways(pattern: str) -> float:
    """Of a pattern that can be compiled."""
    groups = [_Group()]
    at = 0
    last = 0.0  # the bits of what a repetition would be about
    while at < len(pattern):
        char = pattern[at]
        repetition = _repetition(pattern, at) if char in "*+?{" else None
        if repetition is not None:
            at, least, most = repetition
            groups[-1].bits += _repeated(last, least, most)
            last = 0.0
            continue
        last = 0.0
        if char == "\\":
            at = _escape(pattern, at)
        elif char == "[":
            found = _CLASS.match(pattern, at)
            at = found.end() if found else at + 1
        elif char == "(":
            at = _begin(pattern, at)
            groups.append(_Group())
        elif char == ")":
            last = groups.pop().whole()
            groups[-1].bits += last
            at += 1
        else:
            groups[-1].alternatives += char == "|"
            at += 1
    return groups[0].whole()


def _repetition(pattern: str, at: int) -> tuple[int, int, int | None] | None:
    """Return the end, minimum and maximum of a repetition, or None for a literal brace."""
    least, most = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, None)}[pattern[at]]
    end = at + 1
    if pattern[at] == "{":
        found = _COUNT.match(pattern, at)
        if found is None or not (found[1] or found[2]):
            return None
        end, least = found.end(), int(found[1] or 0)
        most = (int(found[3]) if found[3] else None) if found[2] else least
    if pattern[end : end + 1] in ("?", "+"):
        end += 1
    return end, least, most


def _repeated(bits: float, least: int, most: int | None) -> float:
    """Return the additional bits of a repetition."""
    if most == least:
        return bits * (least - 1)
    if most == 1:
        return 1.0
    if bits:
        raise _refused("it repeats what has itself a repetition or a choice in it")
    return _ANY if most is None else min(_ANY, math.log2(most - least + 1))


def _escape(pattern: str, at: int) -> int:
    if pattern[at + 1].isdigit():
        raise _refused("it refers back to a group")
    return at + 2


def _begin(pattern: str, at: int) -> int:
    if pattern[at + 1 : at + 2] != "?":
        return at + 1
    if pattern[at + 1 : at + 3] == "?:":
        return at + 3
    raise _refused("its groups are ( ) and (?: ), and no others")


def _refused(why: str) -> UsageError:
    return UsageError(f"the regular expression cannot be used: {why}", hint="simplify it")
