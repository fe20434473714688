"""Regular expressions that are compiled when they are first used.

There are a hundred ways to find a secret. Most programs never show one, and each of their
processes would pay for all of them when it starts.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

__all__ = ["lazy_pattern"]

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
