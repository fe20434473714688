"""Cassettes for tests."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reenact import rr
from reenact.errors import RrError
from tests.unit.policy.sets import POLICY, put_set

PING = rr.Entry(kind="rr", op="fetch", key=b"C", req=b"C", resp=b"PONG")
DOWN = rr.Entry(kind="http", op="get", key=b"/down", req=b"", resp=b"", err=7, latency_ticks=3)


@contextmanager
def opened(**cfg: Any) -> Iterator[int]:
    """A handle on the cassette ``smoke`` (or ``path``), closed at the end."""
    handle = rr.open({"path": "smoke", **cfg})
    try:
        yield handle
    finally:
        rr.close(handle)


def write(*entries: rr.Entry, **cfg: Any) -> None:
    """Record ``entries`` into the cassette."""
    with opened(**{"mode": "record", **cfg}) as handle:
        for entry in entries:
            rr.append(handle, entry)


def contents(path: str = "smoke") -> list[rr.Entry]:
    """The entries of a cassette, in the order in which they stand there."""
    with opened(path=path, mode="replay", match_mode="transcript") as handle:
        found: list[rr.Entry] = []
        while len(found) < counts(handle)["entries"]:
            found.append(_next_of_any_kind(handle, path, len(found)))
        return found


def _next_of_any_kind(handle: int, path: str, number: int) -> rr.Entry:
    line = _lines(path)[number + 1]["data"]
    return rr.next(handle, line["source"], line.get("op", ""), b"")


def _lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file(path).read_bytes().splitlines()]


def counts(handle: int) -> dict[str, int]:
    """What ``rr.stats`` says."""
    found: dict[str, int] = json.loads(rr.stats(handle))
    return found


def file(path: str = "smoke") -> Path:
    """Where the cassette lies."""
    return Path(os.environ["REENACT_ROOT"], ".reenact", "cassettes", f"{path}.jsonl")


def policy(root: Path, fields: Mapping[str, Any] | None = None, **listed: Any) -> None:
    """Put a default policy with ``fields`` into the project, ``listed`` in its index."""
    put_set(root, {**POLICY, **(fields or {})}, **listed)


@contextmanager
def raises_number(number: int) -> Iterator[pytest.ExceptionInfo[RrError]]:
    """The body raises the error ``number``, which says what to do."""
    with pytest.raises(RrError) as caught:
        yield caught
    assert caught.value.number == number
    assert caught.value.message.startswith(f"{number}: ")
    assert caught.value.hint
