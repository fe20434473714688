"""Original and replay side by side, on a screen."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TextIO

from reenact.cli.diff_text import in_words
from reenact.cli.divergence_text import divergence_lines
from reenact.cli.exchange_text import milliseconds
from reenact.cli.render import clip, count, escape_controls, preview

__all__ = ["ComparisonPrinter"]

_VALUE = 200
_LISTED = 20
_MOST_WORDS = 20_000
_SIGNS = {"add": "+", "remove": "-", "replace": "~"}
_STATES = {"changed": "~", "added": "+", "removed": "-"}


class ComparisonPrinter:
    """Prints comparisons, in lines of at most ``width`` cells; 0 means as long as they are."""

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = width
        self._out = out or sys.stdout

    def print(self, found: dict[str, Any]) -> None:
        """The verdict first, then what it rests on. What is the same is only counted."""
        self._line(_verdict(found))
        if found.get("first"):
            self._line(f"  first   {escape_controls(found['first'])}")
        self._facts(found)
        for name in ("start", "result"):
            if found.get(name):
                self._line("")
                self._line(name)
                self._changes(found[name], "  ")
        self._things("processor", found.get("processors") or [])
        self._things("call", found.get("calls") or [])
        for line in divergence_lines(found.get("divergences") or [], self._width):
            self._line(line)

    def _line(self, text: str) -> None:
        print(clip(text, self._width).rstrip(), file=self._out)

    def _facts(self, found: dict[str, Any]) -> None:
        revision, took = (found.get(name) or {} for name in ("revision", "duration"))
        before, after = _status(found, "before"), _status(found, "after")
        if before != after or (found.get("ending") or {}).get("after") in ("failed", "refused"):
            self._line(f"  status  {escape_controls(before)} -> {escape_controls(after)}")
        if revision.get("before") != revision.get("after"):
            self._line(
                f"  route   {escape_controls(str(revision.get('before')))} -> {escape_controls(str(revision.get('after')))}"
            )
        self._line(
            f"  took    {milliseconds(took.get('before'))} -> {milliseconds(took.get('after'))}"
        )

    def _things(self, noun: str, things: list[dict[str, Any]]) -> None:
        same = sum(one.get("state") == "same" for one in things)
        others = [one for one in things if one.get("state") != "same"]
        if not things:
            return
        self._line("")
        self._line(f"{count(len(things), noun)}, {same:,} the same")
        for one in others[: _LISTED * 5]:
            name = one.get("path") or one.get("operation") or "?"
            self._line(
                f"  {_STATES.get(one.get('state', ''), '?')} {escape_controls(str(name))}{_remarks(one)}"
            )
            self._changes(one.get("changes") or [], "      ")
        if len(others) > _LISTED * 5:
            self._line(f"  and {count(len(others) - _LISTED * 5, f'more {noun}')}")

    def _changes(self, changes: list[dict[str, Any]], indent: str) -> None:
        for one in changes[:_LISTED]:
            for text in self._change(one):
                self._line(f"{indent}{text}")
        if len(changes) > _LISTED:
            self._line(f"{indent}and {count(len(changes) - _LISTED, 'more place')}")

    def _change(self, one: dict[str, Any]) -> Iterator[str]:
        noise = "  (noise)" if one.get("noise") else ""
        yield f"{_SIGNS.get(one.get('op', ''), '?')} {escape_controls(str(one.get('path') or '/'))}{noise}"
        before, after = one.get("before"), one.get("after")
        if isinstance(before, str) and isinstance(after, str) and _is_prose(before, after):
            yield f"    {in_words(before, after, self._out)}"
            return
        if "before" in one:
            yield f"    - {preview(before, _VALUE)}"
        if "after" in one:
            yield f"    + {preview(after, _VALUE)}"


def _status(found: dict[str, Any], side: str) -> str:
    """Return the status of one of the two exchanges, with the HTTP status of its response."""
    status, http = (found.get(name) or {} for name in ("status", "httpStatus"))
    return f"{status.get(side)} {http.get(side) or ''}".rstrip()


def _is_prose(before: str, after: str) -> bool:
    """Are both of several words? Ids and names are easier to read side by side."""
    return len(before) + len(after) < _MOST_WORDS and all(" " in text for text in (before, after))


def _remarks(one: dict[str, Any]) -> str:
    found = [
        *(["noise"] if one.get("noise") else []),
        *(["recorded answer"] if one.get("answer") == "recorded" else []),
        *(["refused"] if one.get("answer") == "refused" else []),
    ]
    return f"  ({', '.join(found)})" if found else ""


def _verdict(found: dict[str, Any]) -> str:
    counts = found.get("counts") or {}
    told = ", ".join(
        f"{number:,} {name}"
        for name, number in counts.items()
        if isinstance(number, int) and number
    )
    verdict = escape_controls(str(found.get("verdict")))
    return f"{verdict}: {told}" if told else verdict
