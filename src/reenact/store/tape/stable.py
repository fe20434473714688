"""Stable re-recording of a tape, so that its diff only shows real changes.

An event with the same content as an event of the old tape reuses the old line, including its time,
its duration and the server's date. Only changed events have new lines.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from reenact.errors import RecordingError, ValueRefused
from reenact.format.canonical import decode, stored
from reenact.format.content_hash import without_volatile
from reenact.format.event import Draft, Event, TapePrefix
from reenact.format.manifest import Manifest, Seed
from reenact.store.files import create_private
from reenact.store.source import LogSource
from reenact.store.tape.reader import first_line, open_tape, read_header, tape_blobs, tape_lines

__all__ = ["VOLATILE_HEADERS", "header_of", "reuse_lines", "reused_lines_path", "with_old_identity"]

VOLATILE_HEADERS: Final = frozenset(
    """
    age alt-svc cf-cache-status cf-ray date expires nel openai-processing-ms report-to request-id
    server-timing traceparent tracestate x-amz-cf-id x-amz-id-2 x-amz-request-id x-amzn-requestid
    x-amzn-trace-id x-cache x-cache-hits x-cloud-trace-context x-correlation-id
    x-envoy-upstream-service-time x-github-request-id x-process-time x-request-id
    x-response-time x-runtime x-served-by x-timer x-trace-id
    """.split()
)
"""Headers that differ in every answer and say nothing about it."""
_LIMITS: Final = ("ratelimit-", "x-ratelimit-", "anthropic-ratelimit-")
_BOOKS: Final = frozenset({"rawHash", "timing", "valueHash", "volatile"})

_Content = tuple[str, str, bytes]


def header_of(tape: Path) -> Seed | None:
    """Return the header of the tape that is about to be replaced; None if it cannot be read."""
    try:
        return read_header(first_line(tape), tape.name)
    except (RecordingError, OSError):
        return None


def with_old_identity(seed: Seed, old: Seed, *kept: str) -> Seed:
    """``seed`` with what of ``old`` is still true of what takes its place: whose recording it is, and
    since when; and of its environment ``argvDigest`` and what else is to be ``kept``."""
    environment = {**seed.environment}
    for name in ("argvDigest", *kept):
        environment.pop(name, None)
        if name in old.environment:
            environment[name] = old.environment[name]
    return msgspec.structs.replace(
        seed,
        capture_id=old.capture_id,
        run_id=old.run_id,
        created_at=old.created_at,
        environment=environment,
        extra=old.extra,
    )


def reused_lines_path(part: Path) -> Path:
    """Return the path of the reused lines of a new tape before its closing line is written."""
    return part.with_name(f"{part.name}.kept")


def reuse_lines(part: Path, tape: Path, seed: Seed) -> Path | Manifest | None:
    """Replace the lines of ``part`` with the lines of ``tape`` for events with the same content.

    Returns the file to close instead of ``part``, the manifest of ``tape`` if nothing changed, or
    None if no line can be reused.
    """
    try:
        with open_tape(tape) as old:
            return _keep(part, old, seed)
    except RecordingError:
        return None  # the new tape replaces it


def _keep(part: Path, old: LogSource, seed: Seed) -> Path | Manifest | None:
    header = first_line(part)
    lines = tape_lines(part, tape_blobs(part), header, seed)
    try:
        same = _same_events(lines.verified_events(), old)
        if not any(same):
            return None
        manifest = old.manifest()
        is_whole = same == list(range(1, len(old) + 1)) and manifest.status == "ok"
        if is_whole and stored(seed.to_json()) + b"\n" == first_line(old.path):
            return manifest
        target, prefix = reused_lines_path(part), TapePrefix()
        with open(create_private(target), "wb") as file:
            file.write(header)
            for seq, event in enumerate(lines.verified_events(), 1):
                line = lines.line(seq) or b""
                file.write(_old_line(prefix, event, old, same[seq - 1]) if same[seq - 1] else line)
        return target
    finally:
        lines.close()


def _old_line(prefix: TapePrefix, event: Event, old: LogSource, seq: int) -> bytes:
    """The line of event ``seq`` of ``old``, at the place that ``event`` has."""
    draft = Draft(
        type=event.type,
        data={},
        ts=old.at(seq).ts,
        lane=event.lane,
        parent=event.parent,
        extra=old.extra(seq),
    )
    return prefix.line(event.seq, draft, old.stored(seq))


def _same_events(new: Iterator[Event], old: LogSource) -> list[int]:
    """Return for each new event the seq of the old event with the same content, or 0. Each is used
    once.
    """
    known: defaultdict[_Content, deque[int]] = defaultdict(deque)
    for event in old:
        known[_content(event)].append(event.seq)
    found = []
    for event in new:
        seqs = known.get(_content(event))
        found.append(seqs.popleft() if seqs else 0)
    return found


def _content(event: Event) -> _Content:
    """Return the content of an event without times, durations and parts that differ in every
    response.
    """
    payload = event.payload
    try:
        payload = stored(_settled(decode(payload)))
    except ValueRefused:
        pass  # what cannot be looked into is compared to the letter
    return event.type, event.lane, hashlib.sha256(payload).digest()


def _settled(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    listed = data.get("volatile")
    if isinstance(listed, list):
        data = without_volatile(data, (one for one in listed if isinstance(one, str)))
    data = {name: item for name, item in data.items() if name not in _drawn_books(data)}
    for part in ("response", "sent"):
        said = data.get(part)
        if isinstance(said, dict) and isinstance(said.get("headers"), list):
            data[part] = {**said, "headers": list(filter(_counts, said["headers"]))}
    return data


def _drawn_books(data: dict[str, Any]) -> frozenset[str]:
    """Drop the hash of a response, which covers its date. The hash of a value is its only content."""
    return _BOOKS if "response" in data else _BOOKS - {"valueHash"}


def _counts(pair: Any) -> bool:
    if not isinstance(pair, list) or not pair or not isinstance(pair[0], str):
        return True
    name = pair[0].lower()
    return name not in VOLATILE_HEADERS and not name.startswith(_LIMITS)
