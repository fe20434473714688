"""Digests of what events say, as it stands in the log, without what never counts."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from reenact.format.event import Event
from reenact.views.saying import NOT_SAID, is_noise

__all__ = ["Members", "digest_of", "look", "number", "text"]

Members = dict[str, msgspec.Raw]
"""The data of an event, not looked into."""

_LEFT_OUT = NOT_SAID - {"volatile", "lens"}
"""Those two say how the rest is to be read."""

_members = msgspec.json.Decoder(Members)
_noise = lru_cache(maxsize=1024)(is_noise)


def look(event: Event) -> Members:
    """The data of ``event``; nothing when they are no object."""
    try:
        return _members.decode(event.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def digest_of(event: Event, members: Members, *, everything: bool) -> bytes:
    """Two events with the same one say the same. ``everything``: all that they hold counts."""
    if everything or not members:
        said = event.payload
    else:
        kept = {name: item for name, item in members.items() if name not in _LEFT_OUT}
        response = kept.pop("response", None)
        said = _joined(kept) if response is None else _joined(kept) + _response(response)
    return hashlib.sha256(event.type.encode("utf-8", "surrogatepass") + said).digest()


def _joined(members: Members) -> bytes:
    """What no other members are: in JSON there is no character 0."""
    names = str([*members]).encode("utf-8", "surrogatepass")
    return b"\0".join((names, *map(bytes, members.values()), b""))


def _response(encoded: msgspec.Raw) -> bytes:
    """An answer over HTTP without the headers that are new in every run."""
    whole = bytes(encoded)
    if not whole.startswith(b"{"):
        return whole
    members = _members.decode(whole)
    headers = members.pop("headers", None)
    if headers is None or "status" not in members:
        return whole
    return _joined(members) + _kept(bytes(headers))


@lru_cache(maxsize=64)
def _kept(headers: bytes) -> bytes:
    """Those that mean something."""
    found = msgspec.json.decode(headers)
    if not isinstance(found, list):
        return headers
    return msgspec.json.encode([pair for pair in found if not _is_noise(pair)])


def _is_noise(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is str and _noise(pair[0])


def text(encoded: msgspec.Raw | None) -> str:
    """The text that this is, if it is one."""
    found = b"" if encoded is None else bytes(encoded)
    return str(msgspec.json.decode(found)) if found.startswith(b'"') else ""


def number(encoded: msgspec.Raw | None, otherwise: int) -> int:
    """The number that this is, if it is one and not less than nothing."""
    found = None if encoded is None else msgspec.json.decode(encoded)
    return found if type(found) is int and found >= 0 else otherwise
