"""How much a link takes, and how long it waits."""

from __future__ import annotations

import msgspec

__all__ = ["CLOCKS_DIFFER", "Limits"]

CLOCKS_DIFFER = 30_000
"""Milliseconds by which the clocks of server and app may differ: so much later than ``expiresAt``
is a command refused as expired."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes, counts and seconds. What the server says at registration is obeyed as well."""

    spool_bytes: int = 1 << 30
    """Of all exchanges that wait to be sent by one process; what comes on top is dropped."""
    aside_entries: int = 1_000
    """Of what was refused or found half-written; the oldest are removed."""

    replays: int = 4
    """How many run at once; each has a thread while it does."""
    waiting: int = 64
    """How many more may wait for their turn."""
    turn_within: float = 25.0
    """A replay that has not begun by then is refused as busy: the server gives it 30 s."""

    gather_seconds: float = 0.25
    """Between two requests of ingest, so that a busy app sends many exchanges in one. The first one
    after a pause, and those of replays, are sent at once."""
    batch_bytes: int = 16 << 20
    """Of one request of ingest, until the server says what it takes."""
    answer_bytes: int = 1 << 20
    source_bytes: int = 64 << 20
    recording_bytes: int = 512 << 20
    unpacked_bytes: int = 2 << 30
    event_bytes: int = 32 << 20
    """Of one event in the stream of commands, which may hold a whole payload."""

    connect_seconds: float = 10.0
    request_seconds: float = 60.0
    control_seconds: float = 10.0
    """Of requests that are small: registration, heartbeats, states."""
    silence_seconds: float = 45.0
    """A stream of commands in which nothing comes for so long, three pings, is dead."""

    retry_first: float = 1.0
    retry_most: float = 60.0
    refused_seconds: float = 300.0
    """When the server takes the key no more it is asked again so often."""
