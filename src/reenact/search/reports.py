"""What replays have reported: the divergences in it, as calls of the recording it is about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from reenact.engine.divergence.model import Divergence
from reenact.errors import RecordingDamaged, ReenactError
from reenact.search.facts import CALL, Call, Said
from reenact.search.flattening import flat

__all__ = ["Reported", "read_report"]


class Reported(msgspec.Struct, frozen=True):
    """``about`` is where the recording lay, as the report says it; empty where it does not."""

    about: str
    status: str
    calls: list[Call]


def read_report(path: Path, written: int) -> Reported | None:
    """A report of ``run --report``, or a single divergence; None for JSON of other kinds.

    ``written`` is when, in milliseconds. Raises :class:`RecordingDamaged` for what is no JSON.
    """
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RecordingDamaged(f"{path} is no JSON: {error}", place=f"file {path.name}") from None
    if not isinstance(found, dict):
        return None
    listed = found.get("divergences", [found] if "code" in found else None)
    if not isinstance(listed, list):
        return None
    about = found.get("recording")
    return Reported(
        about if isinstance(about, str) else "",
        str(found.get("status", "diverged")),
        list(_calls(listed, written)),
    )


def _calls(listed: list[Any], written: int) -> Iterator[Call]:
    for number, one in enumerate(listed):
        try:
            divergence = Divergence.from_json(one)
        except ReenactError:
            continue
        seq = divergence.event_seq
        said = [Said(CALL, f"{divergence.detail} ({divergence.code})")]
        gaps = flat([msgspec.to_builtins(gap) for gap in divergence.paths])
        said += [Said("difference", gaps)] if gaps else []
        said += [Said("hint", divergence.hint)] if divergence.hint else []
        yield Call(
            seq=seq if type(seq) is int else 0,
            closed=seq if type(seq) is int else 0,
            ts=written,
            type="divergence",
            lane=divergence.lane,
            log=str(number),
            kind="divergence",
            name=divergence.code,
            failed=True,
            diverged=divergence.code,
            said=said,
        )
