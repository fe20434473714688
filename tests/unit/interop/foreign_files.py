"""Exchanges and cassettes for the tests of formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact.boundaries.http.wire import Head, Request
from reenact.errors import RecordingError
from reenact.format.event import Event
from reenact.interop.importer import Origin, Taken, take
from reenact.interop.model import Exchange, Found
from reenact.store.reader import open_recording

__all__ = ["events_of", "exchange", "losses_of", "refused", "taken"]


def exchange(
    method: str = "GET",
    url: str = "https://a.example/x",
    *,
    status: int = 200,
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes = b"",
    sent: tuple[tuple[str, str], ...] = (),
    posted: bytes = b"",
    ts: int | None = 1_700_000_000_000,
) -> Exchange:
    return Exchange(
        request=Request(method=method, url=url, headers=sent, body=posted),
        head=Head(status=status, reason="OK", headers=headers),
        body=body,
        ts=ts,
    )


def losses_of(found: Any) -> dict[str, int]:
    return {loss.kind: loss.count for loss in found.losses}


def refused(read: Any, content: bytes) -> RecordingError:
    """The error with which ``content`` is refused. It names a place, and exits with 3."""
    with pytest.raises(RecordingError) as caught:
        read(content)
    error = caught.value
    assert error.exit_code == 3
    assert error.fields["place"]
    return error


def taken(items: list[Any], target: Path, name: str = "vcr", **rest: Any) -> Taken:
    found = Found(items=items)
    return take(found, target, Origin(name, b"content"), **rest)


def events_of(path: Path) -> list[Event]:
    with open_recording(path) as source:
        return list(source)
