"""Import of foreign recordings: calls, files and complete folders.

Imported calls get the same keys and the same redaction as calls that Reenact recorded. Originals
are never modified. An existing tape is kept unless the caller requests its replacement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from reenact._system import Clock, start_clock
from reenact.boundaries.http.stored_body import HIDDEN
from reenact.boundaries.http.wire import Errors, Wire, call_of
from reenact.engine.execution.streams import response_steps
from reenact.engine.recording.budget import RecordingBudget
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.session import Session
from reenact.engine.session.settings import Settings
from reenact.errors import (
    RecordingDamaged,
    RecordingError,
    ReenactError,
    RrError,
    SinkUnwritable,
    UsageError,
)
from reenact.format.canonical import digest_bytes, exact
from reenact.format.event import Draft
from reenact.format.manifest import Manifest, PolicyRef
from reenact.interop.formats import FORMATS, Format, format_named, guess, read_content
from reenact.interop.model import Exchange, Found, Item, Loss, Losses, check_size, is_another
from reenact.policy.access import KNOWN
from reenact.policy.index import load_policy
from reenact.policy.model import DEFAULT, NetRules, Pinned
from reenact.policy.paths import has_policies
from reenact.policy.redaction.redactor import Mark, Profile
from reenact.rr.cassette import check_key_is_left, entry_data
from reenact.rr.entries import EVENT, Entry
from reenact.store.files import read_regular
from reenact.store.reader import unreadable
from reenact.store.recording import make_seed
from reenact.store.sinks.base import Options
from reenact.store.sinks.tape import TapeSink
from reenact.store.warning import Warn

__all__ = ["TAPE", "Job", "Moved", "Origin", "Taken", "jobs", "move", "policy_of", "take"]

IMPORTED = "importedFrom"
"""Key in a manifest's environment for the format that the recording was imported from."""


class Origin(msgspec.Struct, frozen=True):
    """Origin of imported calls: the format, the content, and the file's time in milliseconds since
    the epoch.
    """

    format: str
    content: bytes
    ts: int | None = None


class Taken(msgspec.Struct, frozen=True):
    """Result of an import. ``hidden`` counts the redacted values."""

    manifest: Manifest
    calls: int
    hidden: int
    losses: Losses


class _Stamps(Clock, frozen=True):
    """Shows the time of the call that is being written."""

    shown: list[int] = msgspec.field(default_factory=list)

    def __call__(self) -> int:
        return self.shown[0]


class _CountingSink(TapeSink):
    """Counts the secrets, and the whole bodies, that do not get through."""

    hidden = 0
    bodies = 0

    def append_copy(self, event: Draft, received: tuple[Mark, ...]) -> int:
        answer = event.data.get("response")
        self.bodies += isinstance(answer, dict) and HIDDEN in answer
        redactor = self._options.redactor
        if redactor.profile != "none" and redactor.suspects(exact(event.data)):
            self.hidden += len(redactor.redact(event.data).marks)
        return super().append_copy(event, received)


def policy_of(root: Path, name: str | None = None) -> Pinned:
    """Return the policy of ``root`` for redaction and comparison. Raises :class:`PolicyInvalid`."""
    if name is None and not has_policies(root):
        return Pinned.of(DEFAULT)
    return load_policy(root) if name is None else load_policy(root, name)


def take(
    found: Found,
    target: Path,
    origin: Origin,
    *,
    pinned: Pinned | None = None,
    redaction: Profile | None = None,
    replace: bool = False,
) -> Taken:
    """Write what was found to the tape ``target``, whole or not at all.

    Raises :class:`RecordingExists` and its kin, and :class:`BudgetExceeded` where the policy's
    budgets are smaller than the file.
    """
    said: list[str] = []
    settings = _settings(target, pinned or Pinned.of(DEFAULT), redaction, replace, said.append)
    times = list(_times(found.items, origin.ts))
    clock = _Stamps(0, 0, times[:1])
    sink = _start(settings, target, clock, origin)
    losses = Losses()
    try:
        if any(isinstance(item, Entry) for item in found.items):
            calls = _append_entries(found.items, settings, sink, clock, losses)
            manifest: Manifest | None = sink.finalize()
        else:
            calls, manifest = _record(found.items, times[1:], settings, sink, clock)
    except BaseException:
        sink.discard()
        raise
    losses.note("body_hidden", sink.bodies)
    losses.note("withheld", sum("survived redaction" in text for text in said))
    if manifest is None or manifest.status != "ok":
        raise SinkUnwritable(
            f"{target} could not be written: {'; '.join(said) or 'the disk refused it'}",
            hint="free disk space, or choose a different path",
        )
    return Taken(manifest, calls, sink.hidden, losses)


def _settings(
    target: Path, pinned: Pinned, redaction: Profile | None, replace: bool, warn: Warn
) -> Settings:
    """Return a session policy with the redaction and comparison rules only.

    Access rules do not apply, because an import makes no calls.
    """
    free = msgspec.structs.replace(
        pinned.policy, match="lookup", capabilities=None, boundaries=(), net=NetRules()
    )
    return Settings(
        mode="rewrite",  # what fails leaves nothing behind
        pinned=msgspec.structs.replace(pinned, policy=free, kinds=None, operations=None),
        strict=True,
        unused="allow",
        path=target,
        tape=True,
        warn=warn,
        redaction=redaction,
        overwrite=replace,
        seal=False,
        only="network",
    )


def _start(settings: Settings, target: Path, clock: Clock, origin: Origin) -> _CountingSink:
    redactor = settings.redactor()
    options = Options(redactor=redactor, durability="none", warn=settings.warn)
    sink = _CountingSink(target, clock=clock, options=options, replace=settings.overwrite)
    seed = make_seed(
        clock=clock,
        redactor=redactor,
        log="tape",
        policy=PolicyRef(settings.policy.id, settings.pinned.digest),
        capability_set=KNOWN.capability_set_hash(),
    )
    # A file always results in the same recording, so repeating a migration changes nothing.
    name = digest_bytes(origin.content).removeprefix("sha256:")[:16]
    environment = {"reenact": seed.environment["reenact"], IMPORTED: origin.format}
    sink.start(
        msgspec.structs.replace(
            seed, capture_id=f"cap_{name}", run_id=f"run_{name}", environment=environment
        )
    )
    return sink


def _times(items: Sequence[Item], written: int | None) -> Iterator[int]:
    """Yield the start of the recording, then the time of each call.

    A call without a time gets the time of the previous call, of the first call with a time, or of
    the file.
    """
    known = (item.ts for item in items if isinstance(item, Exchange) and item.ts is not None)
    last = next(known, start_clock()() if written is None else written)
    yield last
    for item in items:
        said = item.ts if isinstance(item, Exchange) else None
        last = last if said is None else max(said, 0)
        yield last


def _record(
    items: Sequence[Any], times: Sequence[int], settings: Settings, sink: TapeSink, clock: _Stamps
) -> tuple[int, Manifest | None]:
    parts = SessionResources(
        clock, settings.redactor(), sink=sink, budget=RecordingBudget(settings.policy)
    )
    with Session(settings, parts) as session:
        for item, ts in zip(items, times, strict=True):
            clock.shown[0] = ts
            _make(session, item)
    return len(items), session.manifest


def _make(session: Session, exchange: Exchange) -> None:
    """Let the session see the call, with the answer that the file has."""

    def live() -> Iterator[Any]:
        yield exchange.head
        if exchange.body:
            yield exchange.body

    call = call_of(session, exchange.request)
    steps = response_steps(session, call, live, Wire(session, Errors()), whole=True, blocks=True)
    session.gateway.run(steps)


def _append_entries(
    items: Sequence[Item], settings: Settings, sink: TapeSink, clock: Clock, losses: Losses
) -> int:
    redactor, calls = settings.redactor(), 0
    for item in items:
        assert isinstance(item, Entry)
        data = entry_data(item)
        key = redactor.redact({"key": data["key"]}).value["key"]
        try:
            check_key_is_left(item.key, key.encode())
        except RrError:
            losses.note("key_is_secret")
            continue
        sink.append(Draft(type=EVENT, data=data, ts=clock(), op=item.op))
        calls += 1
    return calls


TAPE = ".jsonl"


class Job(msgspec.Struct, frozen=True):
    """One file, and where its tape goes. In a folder other files may lie that are none."""

    source: Path
    target: Path
    format: Format | None
    among_others: bool = False


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one file.

    ``kept``: its tape already exists. ``skipped``: the file is not a recording.
    """

    source: Path
    target: Path
    status: Literal["imported", "kept", "skipped", "failed"]
    format: str = ""
    calls: int = 0
    hidden: int = 0
    losses: tuple[Loss, ...] = ()
    error: ReenactError | None = None

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        found: dict[str, Any] = {
            "source": str(self.source),
            "path": str(self.target),
            "status": self.status,
            "format": self.format,
            "calls": self.calls,
            "hidden": self.hidden,
            "losses": [loss.to_json() for loss in self.losses],
        }
        if self.error is not None:
            found["error"] = self.error.to_json()
        return found


def jobs(source: Path, target: Path | None, wanted: Format | None) -> Iterator[Job]:
    """Return the files to import and their tapes.

    Tapes keep the relative names of their originals, next to them or under ``target``. For a single
    file, ``target`` is the tape or an existing folder.
    """
    if not source.exists():
        raise RecordingError(f"there is nothing at {source}", hint="check the path")
    if not source.is_dir():
        yield Job(source, _single(source, target), _format_of(source, wanted))
        return
    if target is not None and target.is_file():
        raise UsageError(
            f"{target} is a file, and {source} a folder", hint="give a folder for the tapes"
        )
    suffixes = _suffixes(wanted)
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.suffix.lower() in suffixes:
            place = path if target is None else target / path.relative_to(source)
            known = _format_of(path, wanted)
            yield Job(path, place.with_suffix(TAPE), known, among_others=True)


def _suffixes(wanted: Format | None) -> frozenset[str]:
    """Of the files in a folder that are looked at."""
    if wanted is None:
        return frozenset(suffix for one in FORMATS for suffix in one.suffixes)
    return frozenset((*wanted.suffixes, ".json") if wanted.name == "vcr" else wanted.suffixes)


def _format_of(path: Path, wanted: Format | None) -> Format | None:
    """A suite of vcrpy may have cassettes of both serializers."""
    if wanted is not None and wanted.name == "vcr" and path.suffix.lower() == ".json":
        return format_named("vcr-json")
    return wanted


def _single(source: Path, target: Path | None) -> Path:
    if target is None:
        return source.with_suffix(TAPE)
    return target / source.with_suffix(TAPE).name if target.is_dir() else target


def move(
    job: Job, pinned: Pinned, *, redaction: Profile | None = None, replace: bool = False
) -> Moved:
    """Import one file and return the result, which contains any error."""
    try:
        return _move(job, pinned, redaction, replace)
    except ReenactError as error:
        problem = error
    except OSError as error:
        problem = unreadable(job.source, error)
    return Moved(source=job.source, target=job.target, status="failed", error=problem)


def _move(job: Job, pinned: Pinned, redaction: Profile | None, replace: bool) -> Moved:
    source, target = job.source, job.target
    if target.exists() and not replace:
        return Moved(source=source, target=target, status="kept")
    state = source.stat()
    check_size(state.st_size)
    content = read_regular(source)
    one = job.format or guess(source, content)
    if one is None:
        raise UsageError(
            f"cannot detect the format of {source}", hint="specify it: --format vcr, har, …"
        )
    try:
        found = read_content(one, content, str(source))
    except RecordingDamaged as error:
        if job.among_others and is_another(error):
            return Moved(source=source, target=target, status="skipped")
        raise
    origin = Origin(one.name, content, int(state.st_mtime * 1000))
    taken = take(found, target, origin, pinned=pinned, redaction=redaction, replace=replace)
    return Moved(
        source=source,
        target=target,
        status="imported",
        format=one.name,
        calls=taken.calls,
        hidden=taken.hidden,
        losses=(*found.losses, *taken.losses),
    )
