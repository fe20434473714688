"""Is a program re-enacted with the arguments that it was recorded with?

Other arguments are no divergence: where they matter it shows, in the calls of the program. But they
are the first thing that somebody wants to know then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest

import msgspec

from reenact.diff.terminal_text import escape_controls
from reenact.engine.divergence.excerpts import Truncator
from reenact.engine.request import request_of
from reenact.engine.session.factory import make_comparer, open_resources
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import Settings
from reenact.format.event import Event
from reenact.policy.redaction.redactor import Redactor
from reenact.runs.command import arguments_of
from reenact.runs.words import dump_words, in_words, load_words

__all__ = ["OtherArguments", "other_arguments"]

_ROOM = 120


class OtherArguments(msgspec.Struct, frozen=True):
    """Which the program was ``recorded`` with, and which it is ``given``; both redacted."""

    recorded: list[str]
    given: list[str]

    def line(self) -> str:
        """``argument 2 is "b", and was "a" in the recording``."""
        pairs = zip_longest(self.recorded, self.given)
        differing = [(at, *pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1]]
        if not differing:  # a secret that is another one
            return "the arguments are not those of the recording"
        at, then, now = differing[0]
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        if now is None:
            return f"argument {at} is missing, and was {_quoted(then)} in the recording{more}"
        was = "not there" if then is None else _quoted(then)
        return f"argument {at} is {_quoted(now)}, and was {was} in the recording{more}"

    def to_json(self) -> dict[str, list[str]]:
        """For the report."""
        return {"recorded": self.recorded, "given": self.given}


def _quoted(text: str) -> str:
    return escape_controls(json.dumps(text, ensure_ascii=False))


def other_arguments(settings: Settings, command: Sequence[str]) -> OtherArguments | None:
    """None if they are the same. Which Python runs the program, and where that lies, does not count;
    nothing does where a command starts Python by way of another program."""
    parts = open_resources(settings)
    try:
        start = next(iter(parts.source or ()), None)
        if start is None or start.type != "run_start":
            return None
        return _compared(settings, parts, start, command)
    finally:
        parts.close()


def _compared(
    settings: Settings, parts: SessionResources, start: Event, command: Sequence[str]
) -> OtherArguments | None:
    argv = load_words(start.data.get("argv"))
    then, now = arguments_of(argv), arguments_of(command)
    if then is None or now is None:
        return None
    comparer = make_comparer(settings, parts)
    recorded = request_of(start.type, start.data)
    asked = {**recorded, "argv": dump_words([*argv[: len(argv) - len(then)], *now])}
    if comparer.key(asked) == comparer.key(recorded):
        return None
    return OtherArguments(_shown(then, parts.redactor), _shown(now, parts.redactor))


def _shown(arguments: list[str], redactor: Redactor) -> list[str]:
    bounds = Truncator(redactor)
    told = {"argv": [in_words(argument) for argument in arguments]}
    redacted: list[str] = redactor.redact(told).value["argv"]
    return [bounds.line(argument, _ROOM) for argument in redacted]
