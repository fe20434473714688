"""How the re-enactment of one recording ended, and what that has in common with others."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from reenact.diff.terminal_text import around_difference
from reenact.engine.divergence.model import Divergence
from reenact.engine.divergence.text_renderer import render_divergence
from reenact.errors import ReenactError
from reenact.runs.afar.place import Place, Remote

__all__ = [
    "BAD",
    "Outcome",
    "Status",
    "as_line",
    "cause_of",
    "diverged",
    "name_of",
    "unreadable",
]

Status = Literal["ok", "diverged", "failed", "unreadable", "timeout"]

BAD: tuple[Status, ...] = ("diverged", "failed", "unreadable", "timeout")
"""``failed``: no divergence, and the program ended with another exit code than it was recorded
with, or another output."""

_SHORT = 60
_INDEX = re.compile(r"\[\d+\]")


class Outcome(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """``cause`` is equal for those that have gone wrong in the same way; empty when all is well."""

    recording: str
    status: Status
    seconds: float = 0.0
    served: int = 0
    cause: str = ""
    detail: str = ""
    """The divergence as text, or what else went wrong."""
    gist: str = ""
    """What is its own about it: of a divergence, the first values that differ, in short."""
    divergence: dict[str, Any] | None = None
    paths: tuple[str, ...] = ()
    """Of a divergence, all paths that differ, as many as it has: ``changed $.request.body.amount``."""
    known: bool = False
    """The baseline has it."""
    away: bool = False
    """It could not be got from where it is, for a reason that is not its own: it is not done."""

    def __post_init__(self) -> None:
        self.cause, self.detail = _text(self.cause), _text(self.detail)
        self.gist = _text(self.gist)

    @property
    def counted_as(self) -> str:
        """The status; what is known is only that."""
        return "known" if self.known else self.status

    @property
    def is_bad(self) -> bool:
        """Is there something wrong that nobody knows of?"""
        return self.status in BAD and not self.known


def _text(said: str) -> str:
    """What a program says need not be text that can be written."""
    return said if said.isascii() else said.encode("utf-8", "backslashreplace").decode()


def as_line(outcome: Outcome) -> bytes:
    """As JSON on a line."""
    try:
        return msgspec.json.encode(outcome) + b"\n"
    except UnicodeEncodeError:  # half a character, in what was asked for
        return msgspec.json.encode(msgspec.structs.replace(outcome, divergence=None)) + b"\n"


def name_of(recording: Place) -> str:
    """What a recording is called in reports. Names need not be text: what is none is escaped."""
    if isinstance(recording, Remote):
        return recording.name
    return os.fsencode(recording).decode("utf-8", "backslashreplace")


def unreadable(recording: Place, error: ReenactError) -> Outcome:
    """A recording that cannot be re-enacted."""
    detail = f"{error.message}\n{error.hint}".rstrip()
    cause = type(error).__name__
    name = name_of(recording)
    return Outcome(recording=name, status="unreadable", cause=cause, detail=detail)


def diverged(recording: Path, divergence: Divergence, served: int = 0) -> Outcome:
    """What a divergence is the end of."""
    return Outcome(
        recording=name_of(recording),
        status="diverged",
        served=served,
        cause=cause_of(divergence),
        detail=render_divergence(divergence),
        gist=_gist(divergence),
        divergence=divergence.to_json(),
        paths=_paths(divergence),
    )


def _paths(divergence: Divergence) -> tuple[str, ...]:
    """Each once, wherever it is in its list."""
    found = {f"{gap.kind} {_INDEX.sub('[*]', gap.path)}" for gap in divergence.paths}
    return tuple(sorted(found)) + (("more",) if divergence.more_paths else ())


def _gist(divergence: Divergence) -> str:
    if not divergence.paths:
        return ""
    gap = divergence.paths[0]
    one, other = around_difference(_short(gap.expected), _short(gap.observed), _SHORT)
    shown = {"changed": f"{one} → {other}", "added": f"+ {other}", "removed": f"- {one}"}
    return f"{gap.path}: {shown[gap.kind]}"


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def cause_of(divergence: Divergence) -> str:
    """``event_payload_mismatch openai/gpt-5 $.request.body.messages[*].content``."""
    seen = divergence.observed or divergence.expected
    where = divergence.json_path
    parts = (
        divergence.code,
        "" if seen is None else (seen.operation or seen.type),
        "" if where is None else _INDEX.sub("[*]", where),
    )
    return " ".join(part for part in parts if part)
