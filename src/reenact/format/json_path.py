"""Paths into JSON values: ``$.messages[0].content`` for people, and JSON pointers (RFC 6901)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from reenact.errors import UsageError

__all__ = [
    "Path",
    "Tokens",
    "format_pointer",
    "join",
    "lookup",
    "normalised_path",
    "parse",
    "parse_pointer",
]

Path = tuple[str | int, ...]
Tokens = tuple[str, ...]
"""Steps of a JSON pointer, in which an index is a text as well."""

_ESCAPES = {
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    "'": "\\'",
    "\\": "\\\\",
}

_STEP = r"""\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)
      | \[(?P<index>[0-9]{1,18})\]
      | \['(?P<quoted>(?:[^'\\]|\\.)*)'\]"""


@cache
def _steps() -> re.Pattern[str]:
    """Compiled when the first path is read: few processes ever do."""
    return re.compile(_STEP, re.VERBOSE)


def join(path: Path) -> str:
    """``("a", 0, "b c")`` as ``$.a[0]['b c']``."""
    return "$" + "".join(map(_step, path))


def normalised_path(path: Path) -> str:
    """Return the normalised path of RFC 9535: ``$['messages'][0]['content']``."""
    return "$" + "".join(
        f"[{step}]" if isinstance(step, int) else f"['{''.join(map(_escaped, step))}']"
        for step in path
    )


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return f"\\u{ord(char):04x}" if char < " " else char


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _is_name(step):
        return f".{step}"
    quoted = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{quoted}']"


def _is_name(step: str) -> bool:
    """Does it need no quotes? ASCII letters, digits, ``_`` and ``-``, the first no digit and no ``-``."""
    return step.isascii() and step.replace("-", "_").isidentifier() and step[0] != "-"


def parse(text: str) -> Path:
    """The inverse of :func:`join`. Raises :class:`UsageError` with the place of the mistake."""
    if not text.startswith("$"):
        raise UsageError(f"a path starts with '$', this one is {text!r}", hint="e.g. $.a[0].b")
    steps: list[str | int] = []
    place = 1
    step = _steps()
    while place < len(text):
        match = step.match(text, place)
        if match is None:
            raise UsageError(f"cannot read the path {text!r} at character {place}")
        place = match.end()
        steps.append(_read(match))
    return tuple(steps)


def _read(match: re.Match[str]) -> str | int:
    if match["index"] is not None:
        return int(match["index"])
    if match["name"] is not None:
        return match["name"]
    return re.sub(r"\\(.)", r"\1", match["quoted"], flags=re.DOTALL)


def lookup(value: Any, path: Path) -> Any:
    """Return the value at ``path``. Raises :class:`LookupError` if it is missing."""
    for step in path:
        if isinstance(value, dict) if isinstance(step, str) else isinstance(value, list):
            value = value[step]
        else:
            raise LookupError(join(path))
    return value


def parse_pointer(text: str) -> Tokens:
    """Return the tokens of a pointer; none for the complete document. Raises :class:`UsageError`."""
    if not text:
        return ()
    if not text.startswith("/"):
        raise UsageError(f"the pointer {text[:80]!r} does not begin with a slash")
    if re.search(r"~(?![01])", text):
        raise UsageError(
            f"the pointer {text[:80]!r} has a tilde that is neither ~0 nor ~1",
            hint="write a tilde as ~0, and a slash in a name as ~1",
        )
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text[1:].split("/"))


def format_pointer(tokens: Iterable[str | int]) -> str:
    """Format tokens as a pointer. Inverse of :func:`parse_pointer`."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
