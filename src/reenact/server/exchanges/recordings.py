"""The calls of an exchange, read from its recording."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from reenact.errors import ReenactError
from reenact.exchange.comparison.calls import Call, read_calls
from reenact.exchange.model import Exchange
from reenact.server.problems import Problem
from reenact.server.runtime import Limits, Server
from reenact.store.pack import unpack
from reenact.store.reader import open_recording
from reenact.store.source import SeekableSource

__all__ = ["calls_of", "check_calls", "recording_of", "with_recording"]

T = TypeVar("T")
_LOOSER: Final = 16
"""Maximum ratio of unpacked to packed size."""


async def recording_of(server: Server, tenant: str, exchange: Exchange) -> bytes:
    """The packed capture. Raises :class:`Problem` when there is none."""
    if exchange.recording is None:
        raise Problem("not_found", "this exchange has no recording")
    return await server.blobs.get(tenant, exchange.recording.digest)


async def calls_of(server: Server, tenant: str, exchange: Exchange) -> tuple[Call, ...]:
    """The calls that it made; none where it has no recording. Raises :class:`Problem`."""
    if exchange.recording is None:
        return ()

    def read(source: SeekableSource) -> tuple[Call, ...]:
        check_calls(source, server.limits.called)
        return read_calls(source, exchange.processors)

    return await with_recording(server, tenant, exchange.recording.digest, read)


def check_calls(source: SeekableSource, most: int) -> None:
    """Raises :class:`Problem` if the events of ``source`` have more than ``most`` bytes.

    All calls of an exchange are held in memory at a time, and a small file can stand for many bytes.
    """
    left = most
    with closing(source.reopen()) as again:
        for event in again:
            left -= len(event.payload)
            if left < 0:
                raise Problem(
                    "too_large",
                    f"the calls of this exchange have more than {most:,} bytes",
                    hint="download the recording, and use reenact view and reenact diff",
                    limit=most,
                )


async def with_recording(
    server: Server, tenant: str, digest: str, read: Callable[[SeekableSource], T]
) -> T:
    """Return the result of ``read``, called in a thread, for the packed capture ``digest``.

    Raises :class:`Problem`.
    """
    data = await server.blobs.get(tenant, digest)
    return await asyncio.to_thread(_read, data, server.limits, read)


def _read(data: bytes, limits: Limits, read: Callable[[SeekableSource], T]) -> T:
    try:
        with tempfile.TemporaryDirectory(prefix="reenact-") as folder:
            packed = Path(folder, "packed")
            packed.write_bytes(data)
            capture = Path(folder, "capture")
            unpack(packed, capture, most=_LOOSER * limits.capture, limits=limits.read)
            with open_recording(capture, limits=limits.read) as source:
                if len(source) > limits.viewed:
                    raise Problem(
                        "too_large",
                        f"the recording has {len(source):,} events, more than {limits.viewed:,}",
                        hint="download it, and use reenact view and reenact diff",
                        limit=limits.viewed,
                    )
                return read(source)
    except ReenactError as error:
        raise Problem("damaged", f"the recording cannot be read: {error.message}") from None
