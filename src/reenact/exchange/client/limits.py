"""Sizes, counts and time limits of the client."""

from __future__ import annotations

import msgspec

__all__ = ["CLOCKS_DIFFER", "Limits"]

CLOCKS_DIFFER = 30_000
"""Milliseconds by which the clocks of server and app can differ. A command is refused as expired
after this time."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in bytes, counts and seconds. Lower limits of the server also apply."""

    spool_bytes: int = 1 << 30
    """Size of the exchanges that wait to be sent by one process. More are dropped."""
    dead_letters: int = 1_000
    """Number of rejected or incomplete exchanges that are stored. The oldest are removed."""

    replays: int = 4
    """Number of replays that run at the same time, each in a thread."""
    waiting: int = 64
    """Number of replays that can wait."""
    turn_within: float = 25.0
    """Seconds after which a waiting replay is refused as busy. The server allows 30 s."""

    gather_seconds: float = 0.25
    """Seconds between two ingest requests, so that a busy app sends many exchanges in one.

    The first exchange after a pause and exchanges of replays are sent at once.
    """
    batch_bytes: int = 16 << 20
    """Size of one ingest request, until the server states its own limit."""
    answer_bytes: int = 1 << 20
    source_bytes: int = 64 << 20
    recording_bytes: int = 512 << 20
    unpacked_bytes: int = 2 << 30
    event_bytes: int = 32 << 20
    """Size of one event of the command stream, which can contain a payload."""

    connect_seconds: float = 10.0
    request_seconds: float = 60.0
    control_seconds: float = 10.0
    """Time limit of registration, heartbeats and state reports."""
    silence_seconds: float = 45.0
    """Seconds of silence, three pings, after which the command stream is considered dead."""

    retry_first: float = 1.0
    retry_most: float = 60.0
    refused_seconds: float = 300.0
    """Seconds between tries while the server rejects the key."""
