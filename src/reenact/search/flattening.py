"""JSON as text to search in: what stands in it, without what only JSON needs."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["MOST", "flat"]

MOST = 1 << 20
"""Characters of one text that are searched."""

_LONG, _KEPT = 2048, 256
_ENCODED = re.compile(rf"[A-Za-z0-9+/=_-]{{{_LONG},}}")
_NUMBERS = 64


def flat(value: Any) -> str:
    """``value`` as lines ``name: value``, at most :data:`MOST` characters.

    Bytes that are no text, long lists of numbers and the rest of what is encoded (pictures, files)
    say nothing and are left out.
    """
    if isinstance(value, str):
        return _scalar(value)
    lines = _Lines()
    lines.add(value, "")
    return "\n".join(lines.found)[:MOST]


class _Lines:
    """Collects lines until there are enough."""

    __slots__ = ("found", "room")

    def __init__(self) -> None:
        self.found: list[str] = []
        self.room = MOST

    def add(self, value: Any, name: str) -> None:
        if isinstance(value, dict):
            if name and value:
                self._line(f"{name}:")
            for key, item in value.items():
                if self.room <= 0:
                    return
                if type(item) is str and len(item) < _LONG:  # most are
                    if item:
                        self._line(f"{key}: {item}")
                else:
                    self.add(item, key)
        elif isinstance(value, (list, tuple)):
            self._listed(value, name)
        else:
            text = _scalar(value)
            if text:
                self._line(f"{name}: {text}" if name else text)

    def _line(self, text: str) -> None:
        self.found.append(text)
        self.room -= len(text) + 1

    def _listed(self, items: list[Any] | tuple[Any, ...], name: str) -> None:
        if len(items) > _NUMBERS and all(type(item) in (int, float) for item in items):
            return
        if any(isinstance(item, (dict, list, tuple)) for item in items):
            for item in items:
                if self.room <= 0:
                    return
                self.add(item, name)
            return
        text = " ".join(filter(None, map(_scalar, items)))
        if text:
            self._line(f"{name}: {text}" if name else text)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        text = value if len(value) <= MOST else value[:MOST]
        return _ENCODED.sub(_beginning, text) if len(text) > _LONG else text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return _scalar(value.decode("utf-8"))
        except UnicodeDecodeError:
            return ""
    return "" if value is None else str(value)


def _beginning(found: re.Match[str]) -> str:
    return found[0][:_KEPT]
