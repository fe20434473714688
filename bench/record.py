"""The whole way from a value to the disk, against the bare system call for as many bytes.

Redaction gate, encoding, digest, delta, envelope, lock, running hash, write: everything that
happens between an event and the end of ``Sink.append``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.append import write_raw
from bench.measure import Limit, Row, Setting, at_most, cpu, interleave, ratio
from bench.traffic import chat, chat_requests
from reenact import Draft, Redactor, Sink, digest
from reenact._system import start_clock
from reenact.format.canonical import exact
from reenact.policy.redaction.gate import Engine
from reenact.policy.redaction.redactor import Profile
from reenact.store.files import EVENTS
from reenact.store.log import Durability
from reenact.store.payload_encoder import BLOB_THRESHOLD
from reenact.store.recording import make_seed
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink

TITLE = "the whole record path"

Events = list[dict[str, Any]]


def run(setting: Setting) -> Iterator[Row]:
    for label, size, count, limit in (
        ("1 KB", 1_000, 4_000, at_most(8)),
        ("10 KB", 10_000, 800, None),
        ("100 KB", 100_000, 160, at_most(10)),
    ):
        yield from _fresh(setting, label, request_events(size, setting.scaled(count)), limit)
    yield from _conversation(setting)


def _fresh(setting: Setting, label: str, events: Events, limit: Limit | None) -> Iterator[Row]:
    """Nothing repeats; nothing is secret, except where the row says so."""
    signed = [{**event, "headers": [["authorization", "Bearer abc.def-123"]]} for event in events]
    lines = [exact(event) for event in events]
    on = partial(record, setting.folder)
    cases = {
        "/ raw os.write": partial(on, events),
        "key digest included": partial(on, events, append=_append_with_key),
        "redaction off": partial(on, events, profile="none"),
        "pure-Python gate": partial(_some, setting.folder, events, engine="python"),
        "with an Authorization header": partial(_some, setting.folder, signed),
    }
    if len(lines[0]) > BLOB_THRESHOLD:
        cases["without a blob"] = partial(on, events, blob_threshold=1 << 30)
    times = interleave(
        {"raw": partial(write_raw, setting.folder, lines, cpu), **cases}, setting.rounds
    )
    for case in cases:
        promise = limit if case == "/ raw os.write" else None
        yield ratio(f"record, {label}: {case}", times[case], times["raw"], promise)


def _conversation(setting: Setting) -> Iterator[Row]:
    """Every request repeats the one before: deltas. Raw writes all of it each time."""
    turns = list(chat(60 if setting.quick else 120))
    signed = [turn.request_data() for turn in turns]
    events = [_unsigned(event) for event in signed]
    lines = [exact(event) for event in events]
    on = partial(record, setting.folder)
    times = interleave(
        {
            "raw": partial(write_raw, setting.folder, lines, cpu),
            "none": partial(on, events, profile="none"),
            "default": partial(on, events),
            "signed": partial(on, signed),
        },
        setting.rounds,
    )
    raw, many = times["raw"], len(turns)
    yield ratio(f"record, {many} turns of a chat: / raw os.write of it all", times["default"], raw)
    yield ratio(f"record, {many} turns of a chat: redaction off", times["none"], raw)
    yield ratio(
        f"record, {many} turns of a chat: with an Authorization header", times["signed"], raw
    )


def _unsigned(event: dict[str, Any]) -> dict[str, Any]:
    headers = [pair for pair in event["request"]["headers"] if pair[0] != "authorization"]
    return {**event, "request": {**event["request"], "headers": headers}}


def request_events(size: int, count: int) -> Events:
    """The data of ``count`` model requests of about ``size`` bytes."""
    return [
        {"provider": "openai", "model": body["model"], "inputHash": "sha256:0", "request": body}
        for body in chat_requests(size - 80, count)
    ]


def _append(sink: Sink, data: dict[str, Any]) -> None:
    sink.append(Draft(type="llm_request", data=data, ts=1_760_000_000_000, op="chat"))


def _append_with_key(sink: Sink, data: dict[str, Any]) -> None:
    _append(sink, {"key": digest(data["request"]), **data})


def _some(folder: Path, events: Events, **how: Any) -> float:
    """A quarter of the work, scaled up: for what is slow."""
    some = events[: max(1, len(events) // 4)]
    return record(folder, some, **how) * len(events) / len(some)


def record(
    folder: Path,
    events: Events,
    *,
    profile: Profile = "default",
    engine: Engine = "hyperscan",
    durability: Durability = "none",
    blob_threshold: int = BLOB_THRESHOLD,
    append: Callable[[Sink, dict[str, Any]], None] = _append,
    clock: Callable[..., float] = cpu,
) -> float:
    """Time for appending every event to a new recording, without opening and closing it."""
    redactor = Redactor(profile, engine=engine)
    ticks = start_clock()
    sink = DirectorySink(
        folder / "recording",
        clock=ticks,
        options=Options(redactor=redactor, durability=durability, blob_threshold=blob_threshold),
    )
    sink.start(make_seed(clock=ticks, redactor=redactor, log=EVENTS))
    sink.append(Draft(type="run_start", data={}, ts=0))  # compiles the gate
    seconds = clock(partial(append, sink), events)
    sink.finalize()
    shutil.rmtree(folder / "recording")
    return seconds
