"""A divergence and its causes, as text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, TextIO

import msgspec

from reenact.cli.diff_text import in_words
from reenact.cli.parsing import broken
from reenact.cli.render import clip, count, escape_controls, preview
from reenact.cli.summary import summary
from reenact.diff.terminal_text import cell_width
from reenact.engine.divergence.model import Gap
from reenact.engine.divergence.text_renderer import render_divergence
from reenact.views.explain.case import Case, Cause, Near, Way
from reenact.views.explain.explanation import Explanation

__all__ = ["Printer"]

_MARKS = {"same": "=", "differs": "-", "not": "."}
_LEGEND = "= the same in both, - recorded, + asked now, . recorded and not reached"
_NOTHING = (
    "None of the usual causes fits: neither the values that differ nor the calls around them tell why. "
    "Look where the program makes this request."
)
_RULES = (
    "A rule goes into .reenact/policies/{name}.policy.json; then `reenact policy pin`. "
    "`reenact policy init` makes the files where there are none."
)
_NARROWEST = 40


class Printer:
    """Prints in lines of at most ``width``, but for texts word by word and what is to be copied; 0 for
    whole lines."""

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = max(_NARROWEST, width) if width else 0
        self._out = out or sys.stdout
        self._said: set[str] = set()

    def print(self, found: Explanation) -> None:
        """All of it: the divergence, what differs, what stands around it, why, and what to do."""
        bare = msgspec.structs.replace(found.case.divergence, paths=[], more_paths=0, hint="")
        self._line(render_divergence(bare, width=self._width or 1 << 16))
        self._section("difference", self._gaps(found.case))
        self._section(
            f"around it, in lane {escape_controls(found.case.divergence.lane)}",
            self._around(found.case),
        )
        self._section("likely causes" if found.causes else "causes", self._causes(found))
        if found.settle is not None:
            self._section("what would settle it", self._way(found.settle, "  "))
        if any(way.policy is not None for cause in found.causes for way in cause.ways):
            name = escape_controls(found.case.policy) or "ID"
            self._section("rules", self._wrapped(_RULES.format(name=name), "  ", "  "))

    def _line(self, text: str) -> None:
        print(text, file=self._out)

    def _section(self, title: str, lines: Iterator[str]) -> None:
        shown = [*lines]
        if shown:
            self._line("\n".join(["", title, *shown]))

    def _clipped(self, text: str) -> str:
        return clip(text.rstrip(), self._width)

    def _wrapped(self, text: str, first: str, then: str) -> Iterator[str]:
        """``text``, which is safe already, broken at its words."""
        room = (self._width or 1 << 16) - max(cell_width(first), cell_width(then))
        for number, line in enumerate(broken(text, room)):
            yield f"{then if number else first}{line}"

    def _gaps(self, case: Case) -> Iterator[str]:
        for gap in case.divergence.paths:
            kind = "" if gap.kind == "changed" else f" ({gap.kind})"
            yield self._clipped(f"  {escape_controls(gap.path)}{kind}")
            yield from self._values(gap)
        if case.divergence.more_paths:
            yield f"  and {count(case.divergence.more_paths, 'more place')}"

    def _values(self, gap: Gap) -> Iterator[str]:
        if isinstance(gap.expected, str) and isinstance(gap.observed, str):
            yield f"    {in_words(gap.expected, gap.observed, self._out)}"
            return
        if gap.kind != "added":
            yield self._clipped(f"    - {self._value(gap.expected)}")
        if gap.kind != "removed":
            yield self._clipped(f"    + {self._value(gap.observed)}")

    def _value(self, value: Any) -> str:
        return preview(value, self._width or 1 << 16)

    def _around(self, case: Case) -> Iterator[str]:
        if not case.near:
            return
        yield from self._wrapped(f"({_LEGEND})", "  ", "   ")
        asked = case.divergence.observed
        told = False
        for near in case.near:
            if near.became == "not" and not told:
                yield from self._asked(case)
                told = True
            yield self._clipped(f"  {_MARKS[near.became]} event {near.seq:<6} {_what(near)}")
            if near.seq == case.divergence.event_seq:
                yield from self._asked(case)
                told = True
        if asked is not None and not told:
            yield from self._asked(case)
        more = case.left - sum(near.became == "not" for near in case.near)
        if more > 0:
            yield f"  . and {more:,} more"

    def _asked(self, case: Case) -> Iterator[str]:
        asked = case.divergence.observed
        if asked is not None:
            data = asked.data if isinstance(asked.data, dict) else {}
            model = f"{escape_controls(asked.operation)}, " if asked.type == "llm_request" else ""
            what = model + (summary(asked.type, data) or escape_controls(asked.operation))
            yield self._clipped(f"  + asked        {what}")

    def _causes(self, found: Explanation) -> Iterator[str]:
        if not found.causes:
            yield from self._wrapped(_NOTHING, "  ", "  ")
            update = found.case.again.update
            way = Way(text="If the change is intended, make again what differs.", command=update)
            yield from self._way(way, "  ")
        for number, cause in enumerate(found.causes, 1):
            yield from self._cause(number, cause)

    def _cause(self, number: int, cause: Cause) -> Iterator[str]:
        head = f"  {number}. "
        yield from self._wrapped(f"{cause.sure}: {escape_controls(cause.text)}", head, "     ")
        for fact in cause.evidence:
            yield from self._wrapped(escape_controls(fact), "     ", "       ")
        for way in cause.ways:
            yield from self._way(way, "     ")

    def _way(self, way: Way, indent: str) -> Iterator[str]:
        """What is to be copied is never cut, and a command is shown once."""
        again = way.command in self._said
        text = f"{escape_controls(way.text)} (As above.)" if again else escape_controls(way.text)
        yield from self._wrapped(text, f"{indent}> ", f"{indent}  ")
        if way.policy is not None:
            said = json.dumps(way.policy, ensure_ascii=False)[1:-1]
            yield f"{indent}    in the policy: {escape_controls(said)}"
        if way.command and not again:
            self._said.add(way.command)
            yield f"{indent}    {escape_controls(way.command)}"


def _what(near: Near) -> str:
    return summary(near.type, near.data) or escape_controls(near.name)
