"""On which line of a JSON text something stands, for messages about a file that a person writes."""

from __future__ import annotations

from reenact.format.paths import Path, join
from reenact.policy.patterns import late

__all__ = ["lines_of"]

_TOKEN = late(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,\n]|[^\s\[\]{}:,"]+')


def lines_of(text: str) -> dict[str, int]:
    """The line of every value, by its path (``$.tests[0].id``); of a field, that of its name.

    ``text`` is JSON. Where a name stands twice, the last line counts.
    """
    found = {"$": 1}
    open_: list[_Container] = []
    line = 1
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == "\n":
            line += 1
            continue
        inside = open_[-1] if open_ else None
        if inside is not None and token not in ",:]}" and inside.begins(token):
            found[join(inside.path)] = line
        if token in "[{":
            open_.append(_Container(() if inside is None else inside.path, token))
        elif token in "]}" and open_:
            open_.pop()
        elif token == "," and inside is not None:
            inside.go_on()
    return found


class _Container:
    """An object or a list that is being read. ``path`` is where the next value belongs."""

    def __init__(self, path: Path, token: str) -> None:
        self._at = path
        self._step: str | int | None = 0 if token == "[" else None

    @property
    def path(self) -> Path:
        return self._at if self._step is None else (*self._at, self._step)

    def begins(self, token: str) -> bool:
        """Is ``token`` where something begins: an item, or the name of a field?"""
        if isinstance(self._step, int):
            return True
        if self._step is None:
            self._step = _name(token)
            return True
        return False

    def go_on(self) -> None:
        """A comma: the next one."""
        self._step = self._step + 1 if isinstance(self._step, int) else None


def _name(token: str) -> str:
    import json  # strings have escapes

    try:
        return str(json.loads(token))
    except ValueError:
        return token
