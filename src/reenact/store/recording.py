"""Starting a recording by hand: ids, time stamps and the description of the environment."""

from __future__ import annotations

import os
import sys
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from reenact._system import Clock, id_bytes, interpreter_and_platform, start_clock
from reenact._version import __version__
from reenact.errors import ReenactError, UsageError
from reenact.format.canonical import digest
from reenact.format.event import ROOT_LANE, TYPES, Data, Draft
from reenact.format.manifest import FORMAT, Manifest, Model, Origin, PolicyRef, RedactionInfo, Seed
from reenact.policy.redaction.redactor import Profile, Redactor
from reenact.store.files import EVENTS
from reenact.store.log import Durability
from reenact.store.seal import own_seal
from reenact.store.sinks.base import Options, Sink
from reenact.store.sinks.directory import DirectorySink
from reenact.store.warning import Warn, print_warning

if TYPE_CHECKING:
    from reenact.format.event_fields import Payload

__all__ = ["Recording", "again", "default_profile", "make_seed", "start_recording"]


class Recording:
    """A started sink with a clock. As a context manager it finalises however the body leaves."""

    def __init__(self, sink: Sink, clock: Clock, warn: Warn) -> None:
        self.sink = sink
        self._clock = clock
        self._warn = warn
        self._pid = os.getpid()

    def add(
        self,
        event: Payload | str,
        data: Data | None = None,
        *,
        lane: str = ROOT_LANE,
        parent: int | None = None,
        op: str = "",
    ) -> int:
        """Append one event, typed (``ToolCall(…)``) or as a type and its data. Returns its seq."""
        kind, content = _untyped(event, data)
        draft = Draft(
            type=kind,
            data=content,
            ts=self._clock(),
            lane=lane,
            parent=parent,
            op=op or _operation(content),
        )
        return self.sink.append(draft)

    def finish(self, status: Literal["ok", "error"] = "ok", error: str | None = None) -> Manifest:
        """Close the recording and return its manifest."""
        return self.sink.finalize(status, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() != self._pid:
            self.sink.leave()
            return
        if kind is None:
            self.finish()
            return
        try:
            self.finish("error", kind.__name__)
        except ReenactError as problem:  # never hides the body's own exception
            self._warn(f"{problem.message}; hint: {problem.hint}")


def _untyped(event: Payload | str, data: Data | None) -> tuple[str, Data]:
    from reenact.format.event_fields import PAYLOADS, Payload  # sessions write no typed events

    if isinstance(event, Payload):
        return event.event_type, event.to_data()
    if data is None:
        raise UsageError(f"the data of the {event} event is missing")
    if event not in TYPES:
        raise UsageError(f"{event!r} is not an event type", hint=f"one of {', '.join(TYPES)}")
    PAYLOADS[event].from_data(data)  # refuses what would not verify: a minimum field is missing
    return event, data


def _operation(data: Data) -> str:
    """Return the name of the operation, taken from the minimum fields of an event."""
    names = ("source", "provider", "model", "name", "type", "op")
    return "/".join(str(data[name]) for name in names if isinstance(data.get(name), str))


def start_recording(
    path: str | Path,
    *,
    redaction: Profile | Redactor | None = None,
    seal: bool = True,
    durability: Durability = "interval",
    overwrite: bool = False,
    tape: bool | None = None,
    model: Model | None = None,
    policy: PolicyRef | None = None,
    parent: Origin | None = None,
    warn: Warn = print_warning,
) -> Recording:
    """Start a recording at ``path``: a tape when it ends in ``.jsonl``, else a capture directory.

    ``redaction`` is a profile or a ready redactor; by default ``default``, and ``strict`` where
    the environment variable ``CI`` is set. ``seal`` keeps redacted values that the program
    received encrypted in the capture, if the extra is installed. Refuses what cannot be written.
    """
    redactor = redaction if isinstance(redaction, Redactor) else _redactor(redaction)
    clock = start_clock()
    place = Path(path)
    as_tape = place.suffix == ".jsonl" if tape is None else tape
    sealer = own_seal() if seal and not as_tape and redactor.profile != "none" else None
    options = Options(redactor=redactor, seal=sealer, durability=durability, warn=warn)
    seed = make_seed(
        clock=clock,
        redactor=redactor,
        log="tape" if as_tape else EVENTS,
        model=model,
        policy=policy,
        parent=parent,
    )
    sink: Sink
    if as_tape:
        from reenact.store.sinks.tape import TapeSink

        sink = TapeSink(place, clock=clock, options=options, replace=overwrite)
    else:
        sink = DirectorySink(place, clock=clock, options=options, replace=overwrite)
    sink.start(seed)
    return Recording(sink, clock, warn)


def default_profile() -> Profile:
    """``strict`` for new recordings in CI, where they are shared; ``default`` elsewhere."""
    return "strict" if os.environ.get("CI") else "default"


def _redactor(profile: Profile | None) -> Redactor:
    return Redactor(profile or default_profile(), environ=dict(os.environ))


def make_seed(
    *,
    clock: Clock,
    redactor: Redactor,
    log: str,
    model: Model | None = None,
    policy: PolicyRef | None = None,
    parent: Origin | None = None,
    mode: Literal["capture", "replay"] = "capture",
    capability_set: str | None = None,
) -> Seed:
    """Return the seed of a recording that starts now."""
    return Seed(
        version=1,
        format=FORMAT,
        capture_id=f"cap_{id_bytes(8).hex()}",
        run_id=f"run_{id_bytes(8).hex()}",
        created_at=clock(),
        mode=mode,
        model=model or Model(),
        event_log_path=log,
        redaction=RedactionInfo(enabled=redactor.profile != "none", profile=redactor.profile),
        environment=_environment(redactor),
        policy=policy,
        parent=parent,
        capability_set=capability_set,
    )


def again(seed: Seed, clock: Clock) -> Seed:
    """The seed of another recording of the same program, which starts now."""
    drawn = id_bytes(16).hex()
    return msgspec.structs.replace(
        seed, capture_id=f"cap_{drawn[:16]}", run_id=f"run_{drawn[16:]}", created_at=clock()
    )


def _environment(redactor: Redactor) -> dict[str, str]:
    return {**_machine(), "argvDigest": _argv_digest(redactor, tuple(sys.argv))}


@cache
def _machine() -> dict[str, str]:
    return {**interpreter_and_platform(), "reenact": __version__}


@lru_cache(maxsize=4)
def _argv_digest(redactor: Redactor, argv: tuple[str, ...]) -> str:
    """An app makes a recording for each request, and is started once."""
    words = [os.fsencode(word).decode("utf-8", "backslashreplace") for word in argv]
    gated = not redactor.spares_gate("".join(words).encode())
    return digest(redactor.redact(words, gated=gated).value)
