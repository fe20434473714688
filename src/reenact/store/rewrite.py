"""Creating a new recording from an existing one: redacted again, migrated, or edited on a copy.

A migration has one step per major version. A step converts the manifest and the events of one major
version to the next, as plain JSON. Each released major version keeps its step permanently. Older
recordings take several steps.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from reenact._system import Clock
from reenact.errors import (
    RecordingDamaged,
    RecordingMissing,
    RecordingTooNew,
    SinkUnwritable,
    UsageError,
    ValueRefused,
)
from reenact.format.canonical import plain
from reenact.format.event import ROOT_LANE, Draft, decode_line, unknown_fields
from reenact.format.manifest import FORMAT, MAJOR, Flag, Manifest, RedactionInfo, Seed, parse
from reenact.policy.redaction.redactor import Redactor
from reenact.store.files import EVENTS, MANIFEST, read_regular
from reenact.store.log import whole_lines
from reenact.store.reader import open_recording, open_tape, tape_blobs
from reenact.store.sinks.base import Options, Sink, Status
from reenact.store.sinks.directory import DirectorySink, swap
from reenact.store.sinks.tape import TapeSink, header_of, tidy_tape, with_old_identity
from reenact.store.source import LogSource

__all__ = [
    "STEPS",
    "RedactionResult",
    "Step",
    "drop_stage",
    "major_of",
    "migrate",
    "migrate_events",
    "migrate_manifest",
    "redact_again",
    "stage",
    "take_stage",
    "to_tape",
]

_STATUS: dict[str, Status] = {"ok": "ok", "error": "error", "recovered": "recovered"}


@dataclass(frozen=True, slots=True)
class RedactionResult:
    """Result of a further redaction: the count per rule, and the paths per event."""

    manifest: Manifest
    by_rule: dict[str, int]
    events: dict[int, list[str]]


def redact_again(
    source_path: Path, target: Path, redactor: Redactor, clock: Clock
) -> RedactionResult:
    """Copy a recording with more taken out, also of its manifest and of fields that this version does
    not know. Same ids, same order, new hashes, nothing sealed."""
    if redactor.profile == "none":
        raise UsageError("the profile 'none' removes nothing", hint="default or strict")
    by_rule: Counter[str] = Counter()
    events: dict[int, list[str]] = {}
    with open_recording(source_path) as source:

        def drafts() -> Iterator[Draft]:
            for draft, seq in _drafts(source):
                extra = redactor.redact(draft.extra)
                marks = (*redactor.redact(draft.data).marks, *extra.marks)
                by_rule.update(mark.rule for mark in marks)
                if marks:
                    events[seq] = sorted({mark.path for mark in marks})
                yield msgspec.structs.replace(draft, extra=extra.value)

        old = source.manifest()
        redaction = RedactionInfo(enabled=True, profile=redactor.profile)
        seed, rules = _clean_seed(_seed_of(old, redaction), redactor)
        by_rule.update(rules)
        sink = _sink(target, clock, Options(redactor=redactor))
        manifest = _write(sink, seed, drafts(), old.status, old.error, old.flags)
    return RedactionResult(manifest, dict(sorted(by_rule.items())), events)


def to_tape(source_path: Path, target: Path, clock: Clock, *, replace: bool) -> Manifest:
    """Copy a capture onto a tape. Same ids, same order; what is sealed stays behind."""
    with open_recording(source_path) as source:
        old = source.manifest()
        drafts = (draft for draft, _ in _drafts(source))
        options = Options(redactor=Redactor("none"))
        sink = TapeSink(target, clock=clock, options=options, replace=replace, keeps=replace)
        seed = _seed_of(old, old.redaction)
        before = header_of(target) if replace else None
        seed = seed if before is None else with_old_identity(seed, before)
        return _write(sink, seed, drafts, old.status, old.error, old.flags)


def _drafts(source: LogSource) -> Iterator[tuple[Draft, int]]:
    for event in source:
        extra = unknown_fields(source.raw(event.seq))
        yield (
            Draft(
                type=event.type,
                data=event.data,
                ts=event.ts,
                lane=event.lane,
                parent=event.parent,
                op=event.type,
                extra=extra,
            ),
            event.seq,
        )


def _seed_of(manifest: Manifest, redaction: RedactionInfo) -> Seed:
    names = Seed.__struct_fields__
    values = {name: getattr(manifest, name) for name in names}
    return Seed(**{**values, "redaction": redaction})


_SEED_TEXTS = ("run_id", "environment", "extra")


def _clean_seed(seed: Seed, redactor: Redactor) -> tuple[Seed, list[str]]:
    """``seed`` without secrets, and the rules by which they were found."""
    found = redactor.redact({name: getattr(seed, name) for name in _SEED_TEXTS})
    return msgspec.structs.replace(seed, **found.value), [mark.rule for mark in found.marks]


def _sink(target: Path, clock: Clock, options: Options) -> Sink:
    if target.suffix == ".jsonl":
        return TapeSink(target, clock=clock, options=options)
    return DirectorySink(target, clock=clock, options=options)


def _write(
    sink: Sink,
    seed: Seed,
    drafts: Iterable[Draft],
    status: str,
    error: str | None,
    flags: Iterable[int] = (),
) -> Manifest:
    log = "tape" if isinstance(sink, TapeSink) else EVENTS
    sink.start(msgspec.structs.replace(seed, event_log_path=log))
    if Flag.APPROXIMATE in flags:
        sink.flag(Flag.APPROXIMATE)
    for draft in drafts:
        if not sink.append(draft):
            break  # the sink has reported the reason and stores it as its error
    final = _STATUS.get(status, "ok")
    manifest = sink.finalize(final, error)
    # a program continues without its recording, but an incomplete copy is an error
    if manifest.status != final:
        raise SinkUnwritable(
            f"the copy is incomplete: {manifest.error}",
            hint="free disk space, remove the incomplete copy and try again",
        )
    return manifest


def migrate(source: Path, target: Path, clock: Clock) -> Manifest:
    """Rewrite a recording of an earlier major version as one of this version.

    Its own hash is checked first; a damaged one is refused. The redaction profile stays.
    """
    try:
        raw = parse(read_regular(source / MANIFEST), place=MANIFEST)
    except OSError as error:
        raise RecordingMissing(
            f"{source / MANIFEST} cannot be read: {error.strerror}",
            hint="migrate takes the capture directory of an earlier version",
        ) from None
    major = major_of(raw)
    if major == MAJOR:
        raise UsageError(f"{source} has format {MAJOR} already", hint="there is nothing to migrate")
    log = source / EVENTS
    _check_old_log(log, raw)
    manifest = migrate_manifest(raw, major)
    try:
        seed = Seed.read(manifest)
    except msgspec.ValidationError as error:
        raise RecordingDamaged(f"{MANIFEST}: {error}", place=MANIFEST) from None
    redactor = Redactor(seed.redaction.profile)
    sink = DirectorySink(target, clock=clock, options=Options(redactor=redactor))
    drafts = map(_old_draft, migrate_events(_old_events(log), major))
    return _write(sink, seed, drafts, raw.get("status", "ok"), raw.get("error"))


def _check_old_log(log: Path, raw: dict[str, Any]) -> None:
    integrity = raw.get("integrity")
    stated = str(integrity.get("eventsHash", "")) if isinstance(integrity, dict) else ""
    try:
        found = hashlib.sha256(read_regular(log)).hexdigest()
    except OSError as error:
        raise RecordingDamaged(
            f"{EVENTS} cannot be read: {error.strerror}", place=f"file {EVENTS}"
        ) from None
    if stated.removeprefix("sha256:") != found:
        raise RecordingDamaged(
            f"{EVENTS} is not what was written: its hash differs from the manifest's",
            place=f"file {EVENTS}",
            hint="restore it from a copy",
        )


def _old_events(log: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(whole_lines(log), 1):
        try:
            event = decode_line(line)
        except ValueRefused as error:
            raise RecordingDamaged(
                f"{EVENTS} line {number}: {error.message}", place=f"{EVENTS} line {number}"
            ) from None
        if not isinstance(event, dict):
            raise RecordingDamaged(
                f"{EVENTS} line {number} is not an object", place=f"{EVENTS} line {number}"
            )
        yield event


def _old_draft(event: dict[str, Any]) -> Draft:
    try:
        return Draft(
            type=str(event["type"]),
            data=plain(event["data"]),
            ts=int(event["ts"]),
            lane=str(event.get("lane", ROOT_LANE)),
            parent=event.get("parent"),
            op=str(event["type"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingDamaged(
            f"event {event.get('seq')}: {type(error).__name__} {error}",
            place=f"event {event.get('seq')}",
        ) from None


def stage(recording: Path) -> Path:
    """A copy of ``recording``, a tape or a capture directory. One that was left over goes."""
    copy = recording.with_name(f"{recording.name}.update")
    drop_stage(copy)
    if recording.is_dir():
        shutil.copytree(recording, copy)
        return copy
    if tape_blobs(recording).folder.exists():
        shutil.copytree(tape_blobs(recording).folder, tape_blobs(copy).folder)
    shutil.copy2(recording, copy)
    return copy


def drop_stage(copy: Path) -> None:
    """Remove a copy that was not needed."""
    for path in (copy, tape_blobs(copy).folder):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def take_stage(copy: Path, recording: Path) -> None:
    """``copy`` is what ``recording`` is from now on; in one step, but for the blobs of a tape, which
    are there before."""
    if recording.is_dir():
        if read_regular(copy / MANIFEST) == read_regular(recording / MANIFEST):
            drop_stage(copy)
        else:
            swap(copy, recording)
        return
    if read_regular(copy) == read_regular(recording):
        drop_stage(copy)
        return
    if tape_blobs(copy).folder.exists():
        shutil.copytree(tape_blobs(copy).folder, tape_blobs(recording).folder, dirs_exist_ok=True)
    copy.replace(recording)
    drop_stage(copy)
    with open_tape(recording) as source:
        tidy_tape(source)


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
            f"no migration exists from format {missing[0]} to {missing[0] + 1}",
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
