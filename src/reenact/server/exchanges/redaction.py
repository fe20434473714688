"""Redaction on the server: data of app agents and users is stored without secrets.

App agents redact before data leaves their process. An old or foreign agent, or one with a different
policy, may not, so the default profile is applied again to all incoming data.
"""

from __future__ import annotations

import io
import lzma
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from reenact._system import Clock
from reenact.errors import ReenactError, UsageError, ValueRefused
from reenact.exchange.model import (
    Body,
    Containment,
    ErrorFacts,
    Exchange,
    Payload,
    Processor,
    RecordingRef,
    Registration,
    Route,
)
from reenact.exchange.payload import payload_digest
from reenact.exchange.redaction import ExchangeRedactor, RedactedPayload
from reenact.format.canonical import digest_bytes, exact
from reenact.policy.redaction.redactor import Redactor
from reenact.server.runtime import Limits
from reenact.store.pack import pack, packed_members, unpack
from reenact.store.reader import open_recording
from reenact.store.rewrite import redact_again
from reenact.store.source import LogSource

__all__ = [
    "CleanRecording",
    "Unclean",
    "clean_exchange",
    "clean_recording",
    "clean_registration",
    "clean_text",
]

_LOOSER: Final = 16
"""Maximum ratio of unpacked to packed size."""
_MESSAGE: Final = 4_096
_NAME: Final = 512
"""Characters of the id of a route or a processor."""
_DRIVER: Final = 128
_REGULAR: Final = (tarfile.REGTYPE, tarfile.AREGTYPE)
_SMALL: Final = 16 << 20
"""Bytes of a recording that are looked at in memory."""


class Unclean(Exception):
    """A secret that cannot be taken out. ``str(error)`` is the reason."""


class CleanRecording(msgspec.Struct, frozen=True):
    """A packed capture without secrets. ``changed``: it is not the one that was sent."""

    data: bytes
    changed: bool = False
    content_hash: str = ""

    def ref(self, before: RecordingRef) -> RecordingRef:
        """Return the reference to this recording in place of ``before``."""
        if not self.changed:
            return before
        return msgspec.structs.replace(
            before,
            digest=digest_bytes(self.data),
            size=len(self.data),
            content_hash=self.content_hash if before.content_hash else "",
        )


@cache
def _cleaner() -> ExchangeRedactor:
    return ExchangeRedactor(Redactor("default"))


def clean_text(text: str) -> str:
    """Return ``text``, such as the reason of a replay, without secrets."""
    return _cleaner().redactor.text(text)


def clean_exchange(exchange: Exchange) -> Exchange:
    """Return ``exchange`` without secrets; the same object when it has none.

    Raises :class:`ReenactError` for a payload or a change that cannot be read, and for a secret in an
    id that others refer to.
    """
    start, changes = _payload(exchange.start), dict[str, Any]()
    redacted = tuple(map(_line, exchange.redacted))
    if start.payload is not exchange.start:
        changes["start"] = start.payload
        redacted = tuple(dict.fromkeys((*redacted, *start.pointers)))
        if exchange.start_digest:
            changes["start_digest"] = payload_digest(start.payload)
        if start.lost:
            changes["not_replayable"] = _line(exchange.not_replayable) or start.lost
    changes["redacted"] = redacted
    if exchange.result is not None:
        result = _payload(exchange.result)
        if result.payload is not exchange.result:
            changes["result"] = None if result.lost else result.payload
    if exchange.error is not None:
        changes["error"] = _error(exchange.error)
    changes["processors"] = _if_suspect(exchange.processors, _processors)
    if exchange.replay is not None:
        divergences = _if_suspect(exchange.replay.divergences, _divergences)
        contained = exchange.replay.containment
        changes["replay"] = msgspec.structs.replace(
            exchange.replay,
            divergences=divergences,
            containment=None if contained is None else _containment(contained),
        )
    if exchange.trace is not None and exchange.trace.state:
        state = _line(exchange.trace.state)
        changes["trace"] = msgspec.structs.replace(exchange.trace, state=state)
    if exchange.recording is not None:
        named = _line(exchange.recording.content_hash)
        changes["recording"] = msgspec.structs.replace(exchange.recording, content_hash=named)
    changes.setdefault("not_replayable", _line(exchange.not_replayable))
    changes["correlation_id"] = _line(exchange.correlation_id)
    changes["revision"] = _line(exchange.revision)
    changes["code_version"] = _line(exchange.code_version)
    changes["route_id"] = _line(exchange.route_id, _NAME)
    made = msgspec.structs.replace(exchange, **changes)
    _check_clean(made)
    return exchange if made == exchange else made


def clean_registration(said: Registration) -> Registration:
    """Return what an app agent reports about itself, without secrets.

    Raises :class:`UsageError` for a secret in its id, which others refer to.
    """
    made = msgspec.structs.replace(
        said,
        name=_line(said.name),
        version=_line(said.version),
        routes=tuple(map(_route, said.routes)),
        containment=_containment(said.containment),
    )
    _check_clean(made)
    return made


def _check_clean(made: Exchange | Registration) -> None:
    survivors = _cleaner().redactor.survivors(msgspec.json.encode(made))
    if survivors:
        raise UsageError(
            f"a secret cannot be redacted ({survivors[0]})",
            hint="use ids that do not contain secrets",
        )


def _line(text: str, most: int = _MESSAGE) -> str:
    """``text`` without secrets, of ``most`` characters if it changes. Most have none."""
    if not text or not _cleaner().redactor.suspects(text.encode("utf-8", "surrogatepass")):
        return text
    clean = clean_text(text)
    return text if clean == text else clean[:most]


def _route(route: Route) -> Route:
    return msgspec.structs.replace(
        route,
        route_id=_line(route.route_id, _NAME),
        revision=_line(route.revision),
        processors=tuple(map(_line, route.processors)),
    )


def _containment(told: Containment) -> Containment:
    drivers = tuple(
        msgspec.structs.replace(one, name=_line(one.name, _DRIVER)) for one in told.drivers
    )
    return msgspec.structs.replace(told, drivers=drivers, scratch=tuple(map(_line, told.scratch)))


def _payload(payload: Payload) -> RedactedPayload:
    body = _own_content(payload.body)
    if body is not payload.body:
        payload = msgspec.structs.replace(payload, body=body)
    try:
        return _cleaner().payload(payload)
    except ReenactError:
        if body.type != "json":
            raise
        # A body with a JSON type that is not JSON can be stored, but not replayed.
        as_text = msgspec.structs.replace(body, type="text")
        found = _cleaner().payload(msgspec.structs.replace(payload, body=as_text))
        if found.payload.body.type != "text":
            return found
        again = msgspec.structs.replace(found.payload.body, type="json")
        kept = msgspec.structs.replace(found.payload, body=again)
        return RedactedPayload(payload if kept == payload else kept, found.pointers, found.lost)


def _own_content(body: Body) -> Body:
    """``body`` without content that its type does not have: nothing reads or redacts that."""
    is_text = body.type in ("text", "json") and body.clipped is None
    is_bytes = body.type == "bytes" and body.clipped is None
    made = msgspec.structs.replace(
        body,
        text=body.text if is_text else "",
        base64=body.base64 if is_bytes else "",
        content_type=_line(body.content_type),
    )
    return body if made == body else made


def _if_suspect(values: tuple[Any, ...], clean: Callable[[Any], tuple[Any, ...]]) -> Any:
    """``values`` as ``clean`` makes them, unless it is certain that they have no secrets."""
    if not values:
        return values
    try:
        text = exact(msgspec.to_builtins(values))
    except ValueRefused:
        return clean(values)
    # The paths of changes are JSON pointers, in which a slash of a name is written `~1`.
    texts = {text, text.replace(b"~1", b"/")}
    return clean(values) if any(map(_cleaner().redactor.suspects, texts)) else values


def _processors(processors: tuple[Processor, ...]) -> tuple[Processor, ...]:
    return _cleaner().processors(list(map(_processor, processors)))


def _processor(one: Processor) -> Processor:
    return msgspec.structs.replace(
        one,
        processor_id=_line(one.processor_id, _NAME),
        error=None if one.error is None else _error(one.error),
        branch=_line(one.branch),
        lane=_line(one.lane),
    )


def _divergences(divergences: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    return tuple(map(_cleaner().value, divergences))


def _error(error: ErrorFacts) -> ErrorFacts:
    clean = ErrorFacts(
        type=clean_text(error.type)[:_MESSAGE], message=clean_text(error.message)[:_MESSAGE]
    )
    return error if clean == error else clean


# Recordings


class _Still(Clock, frozen=True):
    """Constant clock, so that the same recording is always redacted to the same bytes."""

    def __call__(self) -> int:
        return self.wall_ns // 1_000_000


def clean_recording(data: bytes, limits: Limits) -> CleanRecording:
    """Return the packed capture ``data`` without secrets. Reads and writes files.

    Data that is not a recording is returned unchanged. Raises :class:`Unclean` if it holds a
    secret, or if a secret cannot be redacted.
    """
    redactor = _cleaner().redactor
    if _is_surely_clean(data, redactor):
        return CleanRecording(data)
    with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
        packed, capture = Path(folder, "packed"), Path(folder, "capture")
        packed.write_bytes(data)
        try:
            unpack(packed, capture, most=_LOOSER * limits.capture, limits=limits.read)
            with open_recording(capture, limits=limits.read) as source:
                is_clean, completed_at = not _has_secret(source, redactor), _completed_at(source)
        except (ReenactError, lzma.LZMAError):
            if redactor.survivors(data):
                raise Unclean("it is not a recording, and holds a secret") from None
            return CleanRecording(data)
        if is_clean:
            return CleanRecording(data)
        suffix = ".jsonl" if capture.is_file() else ""
        clean, again = Path(folder, f"clean{suffix}"), Path(folder, "again")
        try:
            made = redact_again(capture, clean, redactor, _Still(completed_at * 1_000_000, 0))
            pack(clean, again)
        except ReenactError as error:
            raise Unclean(f"a secret cannot be redacted: {error.message}") from None
        if redactor.survivors(msgspec.json.encode(made.manifest.to_json())):
            raise Unclean("a secret in its manifest cannot be redacted")
        return CleanRecording(again.read_bytes(), True, made.manifest.integrity.content_hash)


def _is_surely_clean(data: bytes, redactor: Redactor) -> bool:
    """Is it certain, without unpacking it to files, that nothing in the packed capture is secret?

    Most are small and have nothing that looks like a secret. A delta can put together what is one, so
    a recording with deltas is not certain.
    """
    left = _SMALL
    try:
        for entry, content in packed_members(io.BytesIO(data)):
            left -= entry.size
            if left < 0 or entry.type not in _REGULAR:
                return False
            text = b"".join(content)
            # Line by line, because each line of a log is a JSON document. Lines of a blob can be checked alone too.
            if b'"$delta":' in text or any(map(redactor.suspects, text.splitlines())):
                return False
    except (lzma.LZMAError, tarfile.TarError, zlib.error, EOFError, OSError):
        return False
    return True


def _has_secret(source: LogSource, redactor: Redactor) -> bool:
    """Return whether the manifest, a payload or an unknown field of an event has a secret."""
    told = source.manifest().to_json()
    if _is_secret(told, msgspec.json.encode(told), redactor):
        return True
    for event in source:
        if _is_secret(event.data, event.payload, redactor):
            return True
        line = source.raw(event.seq)
        if redactor.suspects(line) and (
            redactor.redact(source.extra(event.seq)).marks or redactor.survivors(line)
        ):
            return True
    return False


def _is_secret(value: Any, encoded: bytes, redactor: Redactor) -> bool:
    return redactor.suspects(encoded) and bool(
        redactor.redact(value).marks or redactor.survivors(encoded)
    )


def _completed_at(source: LogSource) -> int:
    manifest = source.manifest()
    return manifest.created_at if manifest.completed_at is None else manifest.completed_at
