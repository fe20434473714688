"""The content hash: one string that decides whether two runs did the same.

Events are ordered by lane and position in the lane. Sequence numbers, timestamps and run ids are
left out, and so are the parts of the data that are allowed to differ: the ``timing`` field (time
offsets), ``rawHash`` (the spelling of the request), and the paths listed in ``volatile``. Events
with the source ``schedule`` describe the order and do not count. Clock readings and random values
that libraries and the host drew ``aside`` never count as a difference.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from reenact.errors import UsageError
from reenact.format.canonical import decode, stored
from reenact.format.event import lane_order
from reenact.format.json_path import Path, parse

__all__ = ["ContentHash", "has_volatile_parts", "without_volatile"]

_MARKS = (b'"timing":', b'"volatile":', b'"rawHash":')
_LEFT_OUT = ("timing", "rawHash")
_SCHEDULE = b'"source":"schedule"'
_ASIDE = b'{"aside":true,'
"""Names are sorted, and none of a draw or a state mutation comes before this one."""
_ASIDES = frozenset({"nondeterministic", "state_mutation"})
_LONGEST_SCHEDULE = 512


class ContentHash:
    """Fed with payloads in any order of lanes, in program order inside each."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: dict[str, Any] = {}

    def add(
        self, lane: str, kind: str, payload: bytes, digest: bytes, *, varies: bool | None = None
    ) -> None:
        """Add one event. ``digest`` is the sha256 of its complete stored payload.

        ``varies`` is the result of :func:`has_volatile_parts` if the caller has it, because
        searching costs more than hashing. Delivery events (source ``schedule``) do not count.
        """
        if len(payload) < _LONGEST_SCHEDULE and _SCHEDULE in payload:
            return
        if kind in _ASIDES and payload.startswith(_ASIDE):
            return
        if varies is None:
            varies = any(mark in payload for mark in _MARKS)
        if varies:
            digest = hashlib.sha256(_stable(payload)).digest()
        running = self._lanes.get(lane)
        if running is None:
            running = self._lanes[lane] = hashlib.sha256()
        running.update(b"%b\0%b" % (kind.encode(), digest))

    @property
    def lanes(self) -> int:
        """Number of lanes so far."""
        return len(self._lanes)

    def digest(self) -> str:
        total = hashlib.sha256()
        for lane in sorted(self._lanes, key=lane_order):
            total.update(b"%b\0%b" % (lane.encode(), self._lanes[lane].digest()))
        return f"sha256:{total.hexdigest()}"


def has_volatile_parts(data: dict[str, Any]) -> bool:
    """Does ``data`` have parts that are left out of the content hash?"""
    return "timing" in data or "volatile" in data or "rawHash" in data


def without_volatile(data: Any, volatile: Iterable[str]) -> Any:
    """A copy of ``data`` with nothing at the paths ``volatile``."""
    found = copy.deepcopy(data)
    for text in volatile:
        _drop(found, text)
    return found


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()  # writes what is raw as it is, and names as orjson does


def _stable(payload: bytes) -> bytes:
    if _MARKS[1] not in payload:
        return _without_timing(payload)
    data = decode(payload)
    if not isinstance(data, dict):
        return payload
    for name in _LEFT_OUT:
        data.pop(name, None)
    listed = data.pop("volatile", None)
    for text in listed if isinstance(listed, list) else ():
        _drop(data, text)
    return stored(data)


def _without_timing(payload: bytes) -> bytes:
    """Fast variant of :func:`_stable` for payloads without a ``volatile`` list."""
    try:
        members = _members.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload
    for name in _LEFT_OUT:
        members.pop(name, None)
    return _encoder.encode(members)


def _drop(data: dict[str, Any], text: Any) -> None:
    try:
        path = parse(text) if isinstance(text, str) else ()
    except UsageError:
        return
    _remove(data, path)


def _remove(value: Any, path: Path) -> None:
    for step in path[:-1]:
        if not _has(value, step):
            return
        value = value[step]
    if path and _has(value, path[-1]):
        value[path[-1]] = None


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and step < len(value)
