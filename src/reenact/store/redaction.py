"""From an event as a boundary made it to the bytes that may leave the process."""

from __future__ import annotations

import re

import msgspec

from reenact.errors import ValueRefused
from reenact.format.canonical import digest, digest_bytes, exact
from reenact.format.content_hash import has_volatile_parts
from reenact.format.event import Data, Draft
from reenact.policy.redaction.redactor import Mark, Redactor

__all__ = ["Prepared", "prepare"]


class Prepared(msgspec.Struct, frozen=True):
    """A redacted event that is safe to write.

    ``varies``: the payload has parts that do not count when runs are compared. ``received`` are
    redacted values that the program received and a replay needs; they can only be written sealed.
    ``warning`` is a message for the user.
    """

    payload: bytes
    varies: bool = False
    received: tuple[Mark, ...] = ()
    warning: str = ""


_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

# Parts of an event that the program received. The other parts are what it sent.
_RECEIVED = {
    "llm_response": ("$",),
    "tool_result": ("$",),
    "state_mutation": ("$.details.variables",),
    "nondeterministic": ("$.response", "$.value", "$.values", "$.first", "$.columns", "$.error"),
}


def prepare(event: Draft, redactor: Redactor) -> Prepared:
    """Encode and redact. Most events pass the gate and are encoded once."""
    try:
        payload = exact(event.data)
    except ValueRefused as error:  # the path names keys, and a key can be anything
        raise ValueRefused(error.reason, redactor.text(error.path), hint=error.hint) from None
    if redactor.profile == "none" or not redactor.suspects(payload):
        return Prepared(payload, has_volatile_parts(event.data))
    redacted = redactor.redact(event.data)
    received = tuple(mark for mark in redacted.marks if _is_received(event.type, mark.path))
    data: Data = redacted.value
    if "rawHash" in data and any(_is_in(mark.path, "$.request") for mark in redacted.marks):
        # A digest of the sent value would allow guessing the secret.
        data = {name: item for name, item in data.items() if name != "rawHash"}
    if received:
        # A recording that is redacted again has marks of its own already.
        before = data.get("redacted")
        known = filter(_is_text, before) if isinstance(before, list) else ()
        data = {**data, "redacted": sorted({*known, *(mark.path for mark in received)})}
    payload = exact(_hashed_anew(data, redacted.marks))
    survivors = redactor.survivors(payload)
    if survivors:
        return _withhold(event, payload, survivors)
    return Prepared(payload, has_volatile_parts(data), received)


def _hashed_anew(data: Data, marks: tuple[Mark, ...]) -> Data:
    """Replace the hash of a redacted value, because the hash of a short secret would reveal it."""
    name = "response" if "response" in data else "value"
    if "valueHash" not in data or not any(_is_in(mark.path, f"$.{name}") for mark in marks):
        return data
    return {**data, "valueHash": digest(data.get(name))}


def _is_text(item: object) -> bool:
    return isinstance(item, str)


def _is_received(kind: str, path: str) -> bool:
    return any(_is_in(path, part) for part in _RECEIVED.get(kind, ()))


def _is_in(path: str, part: str) -> bool:
    return path == part or part == "$" or path.startswith((f"{part}.", f"{part}["))


def _withhold(event: Draft, payload: bytes, survivors: tuple[str, ...]) -> Prepared:
    """Fail closed: something that looks like a secret is still there, so none of it is written."""
    names = ", ".join(survivors)
    note: Data = {
        "withheld": {
            "digest": digest_bytes(payload),
            "reason": f"secret-like text survived redaction: {names}",
            "size": len(payload),
        }
    }
    key = event.data.get("key")
    if isinstance(key, str) and _DIGEST.fullmatch(key):
        note["key"] = key
    return Prepared(
        exact(note),
        warning=f"the payload of a {event.type} event was not written, because text that looks "
        f"like a secret ({names}) survived redaction; its digest was kept",
    )
