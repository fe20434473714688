"""Limits on how much a recording expands to while it is read.

A delta copies bytes of earlier events and a payload can name one blob many times, so a few lines can
stand for gigabytes. A reader adds up the sizes first and refuses a recording that exceeds them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from reenact.errors import UsageError

__all__ = ["EVENT_LIMIT", "RECORDING_LIMIT", "ReadLimits", "limits_from"]

EVENT_LIMIT: Final = "REENACT_EVENT_LIMIT"
"""Environment variable: MiB that one event expands to at most."""
RECORDING_LIMIT: Final = "REENACT_RECORDING_LIMIT"
"""Environment variable: MiB that all events of a recording expand to at most."""


class ReadLimits(msgspec.Struct, frozen=True):
    """Bytes that deltas and repeated blobs expand to, per event and per recording."""

    event: int = 64 << 20
    recording: int = 16 << 30


def limits_from(
    environ: Mapping[str, str] | None = None, defaults: ReadLimits | None = None
) -> ReadLimits:
    """Return the limits that the environment sets, otherwise ``defaults``.

    Raises :class:`UsageError` for a value that is not a positive whole number.
    """
    found = os.environ if environ is None else environ
    defaults = defaults or ReadLimits()
    if EVENT_LIMIT not in found and RECORDING_LIMIT not in found:
        return defaults
    return ReadLimits(
        event=_mebibytes(found, EVENT_LIMIT, defaults.event),
        recording=_mebibytes(found, RECORDING_LIMIT, defaults.recording),
    )


def _mebibytes(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text)):
        raise UsageError(
            f"{name} is {text[:40]!r}, expected a positive whole number of MiB",
            hint=f"set {name} to a number such as {default >> 20}, or remove it",
        )
    return int(text) << 20
