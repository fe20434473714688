"""Migration of recordings from earlier major versions, one version per step.

A step converts the manifest and the events of one major version to the next, as plain JSON. Each
released major version keeps its step permanently. Older recordings take several steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reenact.errors import RecordingDamaged, RecordingTooNew
from reenact.format.manifest import FORMAT, MAJOR

__all__ = ["STEPS", "Step", "major_of", "migrate_events", "migrate_manifest"]

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """From ``major`` to ``major + 1``."""

    major: int
    manifest: Callable[[Json], Json]
    event: Callable[[Json], Json]


def _manifest_0(old: Json) -> Json:
    """Format 0 is the source document's own: no ``format`` field, no content hash, no lanes."""
    wanted = ("captureId", "runId", "createdAt", "mode")
    missing = [name for name in wanted if name not in old]
    if missing:
        raise RecordingDamaged(
            f"the manifest has no {missing[0]}", place=f"manifest.json, field {missing[0]}"
        )
    new = {name: item for name, item in old.items() if name != "integrity"}
    new["format"] = {"name": FORMAT.name, "version": "1.0"}
    new.setdefault("model", {"provider": "", "model": ""})
    new.setdefault("redaction", {"enabled": False, "profile": "none"})
    new["environment"] = {}
    new["eventLogPath"] = "events.jsonl"
    return new


def _event_0(old: Json) -> Json:
    """Counting from 0 was allowed; everything else is as it is now."""
    return old


STEPS: tuple[Step, ...] = (Step(0, _manifest_0, _event_0),)


def major_of(manifest: Json) -> int:
    """The major version of a raw manifest."""
    form = manifest.get("format")
    if form is None:
        return 0
    text = str(form.get("version", "")) if isinstance(form, dict) else ""
    head = text.partition(".")[0]
    if not head.isdecimal():
        raise RecordingDamaged(
            f"cannot read the format version {text!r}", place="manifest.json, field format"
        )
    return int(head)


def _chain(start: int, target: int, steps: Sequence[Step]) -> list[Step]:
    if start > target:
        raise RecordingTooNew(
            f"format {start} is later than {target}", hint="pip install --upgrade reenact"
        )
    by_major = {step.major: step for step in steps}
    missing = [major for major in range(start, target) if major not in by_major]
    if missing:
        raise RecordingDamaged(
            f"there is no way from format {missing[0]} to {missing[0] + 1}",
            place="manifest.json, field format",
        )
    return [by_major[major] for major in range(start, target)]


def migrate_manifest(
    manifest: Json, start: int, *, target: int = MAJOR, steps: Sequence[Step] = STEPS
) -> Json:
    """``manifest``, which has major version ``start``, as the manifest of ``target``."""
    for step in _chain(start, target, steps):
        manifest = step.manifest(manifest)
    return manifest


def migrate_events(
    events: Iterable[Json], start: int, *, target: int = MAJOR, steps: Sequence[Step] = STEPS
) -> Iterator[Json]:
    """Each of ``events``, which have major version ``start``, as an event of ``target``."""
    chain = _chain(start, target, steps)
    for event in events:
        for step in chain:
            event = step.event(event)
        yield event
