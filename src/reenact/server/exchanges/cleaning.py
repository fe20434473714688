"""Redaction on the server: whatever an agent or a person sends, it is stored without secrets.

App agents redact before anything leaves their process. An old one, a foreign one or one with
another policy may not, so the default profile is applied again to all that comes in.
"""

from __future__ import annotations

import io
import lzma
import tarfile
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from reenact._system import Clock
from reenact.errors import ReenactError, ValueRefused
from reenact.exchange.document import digest_of
from reenact.exchange.model import ErrorFacts, Exchange, Payload, Processor, RecordingRef
from reenact.exchange.redacting import Cleaned, Cleaner
from reenact.format.canonical import digest_bytes, exact
from reenact.policy.redaction import Redactor
from reenact.server.ports import Limits
from reenact.store.pack import pack, unpack
from reenact.store.reading import open_recording
from reenact.store.rewrite import redact_again

__all__ = ["CleanRecording", "Unclean", "clean_exchange", "clean_recording", "clean_text"]

_LOOSER: Final = 16
"""How many times larger than a capture may be packed it may be unpacked."""
_MESSAGE: Final = 4_096
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
        """How an exchange names it that named ``before``."""
        if not self.changed:
            return before
        return msgspec.structs.replace(
            before,
            digest=digest_bytes(self.data),
            size=len(self.data),
            content_hash=self.content_hash if before.content_hash else "",
        )


@cache
def _cleaner() -> Cleaner:
    return Cleaner(Redactor("default"))


def clean_text(text: str) -> str:
    """Return ``text``, such as the reason of a replay, without secrets."""
    return _cleaner().redactor.text(text)


def clean_exchange(exchange: Exchange) -> Exchange:
    """Return ``exchange`` without secrets; the same object when it has none.

    Raises :class:`ReenactError` for a payload or a change that cannot be read.
    """
    start, changes = _payload(exchange.start), dict[str, Any]()
    if start.payload is not exchange.start:
        changes["start"] = start.payload
        changes["redacted"] = tuple(dict.fromkeys((*exchange.redacted, *start.pointers)))
        if exchange.start_digest:
            changes["start_digest"] = digest_of(start.payload)
        if start.lost:
            changes["not_replayable"] = exchange.not_replayable or start.lost
    if exchange.result is not None:
        result = _payload(exchange.result)
        if result.payload is not exchange.result:
            changes["result"] = None if result.lost else result.payload
    if exchange.error is not None:
        changes["error"] = _error(exchange.error)
    changes["processors"] = _if_suspect(exchange.processors, _processors)
    if exchange.replay is not None and exchange.replay.divergences:
        told = _if_suspect(exchange.replay.divergences, _divergences)
        changes["replay"] = msgspec.structs.replace(exchange.replay, divergences=told)
    if exchange.trace is not None and exchange.trace.state:
        state = clean_text(exchange.trace.state)[:_MESSAGE]
        changes["trace"] = msgspec.structs.replace(exchange.trace, state=state)
    changes["correlation_id"] = clean_text(exchange.correlation_id)[:_MESSAGE]
    if exchange.not_replayable and "not_replayable" not in changes:
        changes["not_replayable"] = clean_text(exchange.not_replayable)[:_MESSAGE]
    made = msgspec.structs.replace(exchange, **changes)
    return exchange if made == exchange else made


def _payload(payload: Payload) -> Cleaned:
    body = payload.body
    if body.clipped is not None and (body.text or body.base64):
        payload = msgspec.structs.replace(
            payload, body=msgspec.structs.replace(body, text="", base64="")
        )
    try:
        return _cleaner().payload(payload)
    except ReenactError:
        if body.type != "json":
            raise
        # A body that is said to be JSON, and is not: it can be stored, but not be replayed.
        as_text = msgspec.structs.replace(body, type="text")
        found = _cleaner().payload(msgspec.structs.replace(payload, body=as_text))
        if found.payload.body.type != "text":
            return found
        again = msgspec.structs.replace(found.payload.body, type="json")
        kept = msgspec.structs.replace(found.payload, body=again)
        return Cleaned(payload if kept == payload else kept, found.pointers, found.lost)


def _if_suspect(values: tuple[Any, ...], clean: Callable[[Any], tuple[Any, ...]]) -> Any:
    """``values`` as ``clean`` makes them, unless it is certain that they have no secrets."""
    if not values:
        return values
    try:
        suspect = _cleaner().redactor.suspects(exact(msgspec.to_builtins(values)))
    except ValueRefused:
        suspect = True
    return clean(values) if suspect else values


def _processors(processors: tuple[Processor, ...]) -> tuple[Processor, ...]:
    told = [
        one if one.error is None else msgspec.structs.replace(one, error=_error(one.error))
        for one in processors
    ]
    return _cleaner().processors(told)


def _divergences(divergences: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
    return tuple(map(_cleaner().value, divergences))


def _error(error: ErrorFacts) -> ErrorFacts:
    clean = ErrorFacts(
        type=clean_text(error.type)[:_MESSAGE], message=clean_text(error.message)[:_MESSAGE]
    )
    return error if clean == error else clean


# Recordings


class _Still(Clock, frozen=True):
    """A clock that stands still: the same recording is always cleaned to the same bytes."""

    def __call__(self) -> int:
        return self.wall_ns // 1_000_000


def clean_recording(data: bytes, limits: Limits) -> CleanRecording:
    """Return the packed capture ``data`` without secrets. Reads and writes files.

    What is not a recording is returned unchanged, since nothing reads it as one. Raises
    :class:`Unclean` when that holds a secret, and when one cannot be taken out.
    """
    redactor = _cleaner().redactor
    if _is_surely_clean(data, redactor):
        return CleanRecording(data)
    with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
        packed, capture = Path(folder, "packed"), Path(folder, "capture")
        packed.write_bytes(data)
        try:
            unpack(packed, capture, most=_LOOSER * limits.capture, limits=limits.read)
            completed_at = _secret_of(capture, redactor, limits)
        except (ReenactError, lzma.LZMAError):
            if redactor.survivors(data):
                raise Unclean("it is not a recording, and holds a secret") from None
            return CleanRecording(data)
        if completed_at is None:
            return CleanRecording(data)
        suffix = ".jsonl" if capture.is_file() else ""
        clean, again = Path(folder, f"clean{suffix}"), Path(folder, "again")
        try:
            made = redact_again(capture, clean, redactor, _Still(completed_at * 1_000_000, 0))
            pack(clean, again)
        except ReenactError as error:
            raise Unclean(f"a secret cannot be taken out: {error.message}") from None
        return CleanRecording(again.read_bytes(), True, made.manifest.integrity.content_hash)


def _is_surely_clean(data: bytes, redactor: Redactor) -> bool:
    """Is it certain, without unpacking it to files, that nothing in the packed capture is secret?

    Most are small and have nothing that looks like a secret. A delta can put together what is one, so
    a recording with deltas is not certain.
    """
    left = _SMALL
    try:
        with lzma.open(io.BytesIO(data)) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            for entry in tar:
                left -= entry.size
                content = tar.extractfile(entry) if left >= 0 else None
                if content is None:
                    return False
                text = content.read()
                # Lines one by one: each is JSON of its own. In a blob that is no matter.
                if b'"$delta":' in text or any(map(redactor.suspects, text.splitlines())):
                    return False
    except (lzma.LZMAError, tarfile.TarError, EOFError, OSError):
        return False
    return True


def _secret_of(capture: Path, redactor: Redactor, limits: Limits) -> int | None:
    """When the recording was completed, if it holds a secret; otherwise None."""
    with open_recording(capture, limits=limits.read) as source:
        for event in source:
            payload = event.payload
            if redactor.suspects(payload) and (
                redactor.redact(event.data).marks or redactor.survivors(payload)
            ):
                return source.manifest().completed_at
    return None
