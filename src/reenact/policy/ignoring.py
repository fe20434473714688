"""What a policy says does not count in a comparison: places in the request, headers, parameters.

A path is a subset of RFC 9535: ``$.a[0].b``, ``$['a b']``, the wildcards ``.*`` and ``[*]``, and
``$..name`` for any depth. A member of an object that is ignored may also be missing. An element of
a list that is ignored keeps its place, so that the others keep theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_plus

import msgspec

from reenact.errors import PolicyInvalid
from reenact.format.canonical import canonical
from reenact.format.paths import Path
from reenact.policy.patterns import late
from reenact.policy.structure import is_pair, like, pair_name
from reenact.policy.volatile import Taken

__all__ = ["Members", "Paths"]

_STEP = late(
    r"""(?P<deep>\.\.)(?P<deep_name>\*|[^\W\d][\w-]*)
      | \.(?P<name>\*|[^\W\d][\w-]*)
      | (?P<deep_bracket>\.\.)?\[(?:
            (?P<index>[0-9]{1,18}) | (?P<star>\*)
          | '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)"
        )\]""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = late(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class _Step(msgspec.Struct, frozen=True):
    """``want`` is a name, an index, or None for any; ``deep``: at any depth below."""

    want: str | int | None
    deep: bool


_State = tuple[int, int]
"""Which path, and how many of its steps have been taken."""


class Paths:
    """Takes the ignored places out. Raises :class:`PolicyInvalid` for a path it cannot read."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = tuple(texts)
        self._paths = tuple(_parse(text, number) for number, text in enumerate(self._texts))
        self._start = tuple((number, 0) for number in range(len(self._paths)))

    def strip(self, value: Any, taken: Taken | None = None) -> Any:
        """``value`` without what is ignored; what did not change is shared."""
        return self._strip(value, self._start, (), taken)

    def _strip(self, value: Any, states: tuple[_State, ...], path: Path, taken: Any) -> Any:
        if not states:
            return value
        if isinstance(value, dict):
            return self._object(value, states, path, taken)
        if isinstance(value, (list, tuple)):
            return self._array(value, states, path, taken)
        return value

    def _object(
        self, value: dict[Any, Any], states: tuple[_State, ...], path: Path, taken: Taken | None
    ) -> dict[Any, Any]:
        new: dict[Any, Any] = {}
        changed = False
        for key, item in value.items():
            following = self._after(states, key)
            if self._ends(following, (*path, key), item, taken):
                changed = True
                continue
            fresh = new[key] = self._strip(item, following, (*path, key), taken)
            changed = changed or fresh is not item
        return new if changed else value

    def _array(
        self, value: Any, states: tuple[_State, ...], path: Path, taken: Taken | None
    ) -> Any:
        new: list[Any] = []
        changed = False
        for index, item in enumerate(value):
            following = self._after(states, index)
            if self._ends(following, (*path, index), item, taken):
                fresh = None
            else:
                fresh = self._strip(item, following, (*path, index), taken)
            changed = changed or fresh is not item
            new.append(fresh)
        return new if changed else value

    def _after(self, states: tuple[_State, ...], key: str | int) -> tuple[_State, ...]:
        following: list[_State] = []
        for path, done in states:
            if done == len(self._paths[path]):
                continue
            step = self._paths[path][done]
            if step.deep:
                following.append((path, done))
            if step.want is None or (step.want == key and type(step.want) is type(key)):
                following.append((path, done + 1))
        return tuple(following)

    def _ends(self, states: tuple[_State, ...], path: Path, item: Any, taken: Taken | None) -> bool:
        """Has one of the paths come to its end here?"""
        for number, done in states:
            if done == len(self._paths[number]):
                if taken is not None:
                    taken.append((f"ignore {self._texts[number]}", path, canonical(item)))
                return True
        return False


def _parse(text: str, number: int) -> tuple[_Step, ...]:
    place = f"$.ignore.paths[{number}]"
    hint = (
        "e.g. $.messages[0].id, $.messages[*].id or $..id; no filters, slices or negative numbers"
    )
    if not text.startswith("$"):
        raise PolicyInvalid(f"a path starts with '$', this one is {text!r}", place=place, hint=hint)
    steps: list[_Step] = []
    done = 1
    while done < len(text):
        match = _STEP.match(text, done)
        if match is None:
            raise PolicyInvalid(
                f"cannot read the path {text!r} at character {done}", place=place, hint=hint
            )
        steps.append(_Step(_want(match), bool(match["deep"] or match["deep_bracket"])))
        done = match.end()
    if not steps:
        raise PolicyInvalid(
            "the path '$' is the whole request: then nothing would be compared",
            place=place,
            hint="name the part that may differ, e.g. $.messages[0].id",
        )
    return tuple(steps)


def _want(match: re.Match[str]) -> str | int | None:
    if match["index"] is not None:
        return int(match["index"])
    name = match["deep_name"] or match["name"] or match["star"]
    if name is not None:
        return None if name == "*" else name
    quoted = match["single"] if match["single"] is not None else match["double"]
    return _ESCAPE.sub(_unescaped, quoted)


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    return _ESCAPED.get(match[2], match[2])


class Members:
    """Takes ignored headers and query parameters out, wherever a request has them.

    Headers stand under ``headers``, as pairs or as a mapping, and their case does not matter.
    Parameters stand in the text under ``url`` and under ``query``, as pairs or as a mapping.
    """

    def __init__(self, headers: Iterable[str], query: Iterable[str]) -> None:
        self._headers = frozenset(name.lower() for name in headers)
        self._query = frozenset(query)

    def strip(self, value: Any, taken: Taken | None = None) -> Any:
        """``value`` without them; what did not change is shared."""
        return self._strip(value, (), taken)

    def _strip(self, value: Any, path: Path, taken: Taken | None) -> Any:
        if isinstance(value, dict):
            return self._object(value, path, taken)
        if isinstance(value, (list, tuple)):
            items = enumerate(value)
            return like(value, [self._strip(item, (*path, index), taken) for index, item in items])
        return value

    def _object(self, value: dict[Any, Any], path: Path, taken: Taken | None) -> dict[Any, Any]:
        new: dict[Any, Any] = {}
        changed = False
        for key, item in value.items():
            fresh = new[key] = self._member(key, item, (*path, key), taken)
            changed = changed or fresh is not item
        return new if changed else value

    def _member(self, key: Any, item: Any, path: Path, taken: Taken | None) -> Any:
        if key == "headers" and self._headers:
            item = self._named(item, "header", path, taken)
        elif key == "query" and self._query:
            item = self._named(item, "query", path, taken)
        elif key == "url" and self._query and isinstance(item, str):
            return self._url(item, path, taken)
        return self._strip(item, path, taken)

    def _named(self, value: Any, what: str, path: Path, taken: Taken | None) -> Any:
        if isinstance(value, dict):
            members = {
                name: item
                for name, item in value.items()
                if not self._takes(what, str(name), item, (*path, name), taken)
            }
            return value if len(members) == len(value) else members
        if not isinstance(value, (list, tuple)):
            return value
        kept = [
            item
            for index, item in enumerate(value)
            if not is_pair(item)
            or not self._takes(what, pair_name(item[0]), item[1], (*path, index), taken)
        ]
        return value if len(kept) == len(value) else kept

    def _takes(self, what: str, name: str, value: Any, place: Path, taken: Taken | None) -> bool:
        spelled = name.lower() if what == "header" else name
        if spelled not in (self._headers if what == "header" else self._query):
            return False
        if taken is not None:
            taken.append((f"ignore {what} {spelled}", place, canonical(value)))
        return True

    def _url(self, url: str, path: Path, taken: Taken | None) -> str:
        rest, hash_mark, fragment = url.partition("#")
        base, mark, query = rest.partition("?")
        if not mark:
            return url
        parts = query.split("&")
        kept = [
            part
            for index, part in enumerate(parts)
            if not self._takes_part(part, (*path, index), taken)
        ]
        if len(kept) == len(parts):
            return url
        return base + ("?" + "&".join(kept) if kept else "") + hash_mark + fragment

    def _takes_part(self, part: str, place: Path, taken: Taken | None) -> bool:
        name, _, value = part.partition("=")
        return self._takes("query", unquote_plus(name), value, place, taken)
