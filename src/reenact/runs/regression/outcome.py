"""How the re-enactment of one recording ended, and what that has in common with others."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from reenact.engine.divergence import Divergence

__all__ = ["BAD", "Outcome", "Status", "cause_of"]

Status = Literal["ok", "diverged", "failed", "unreadable", "timeout"]

BAD: tuple[Status, ...] = ("diverged", "failed", "unreadable", "timeout")
"""``failed``: no divergence, and the program ended with another exit code than it was recorded
with, or another output."""

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
    divergence: dict[str, Any] | None = None
    known: bool = False
    """The baseline has it."""


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
