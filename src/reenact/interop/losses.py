"""What a format cannot hold, counted by kind. Nothing is lost in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

__all__ = ["KINDS", "Loss", "Losses"]

KINDS: dict[str, str] = {
    "body_hidden": "a coded body that nobody here can look into: it may be a secret, and is not kept",
    "body_missing": "a body that the file does not have: an empty one is served",
    "body_rebuilt": "a body that is kept by its value was written anew: its bytes may differ",
    "body_unread": "a request body of which only the digest is known",
    "coding_dropped": "a body that is not encoded as its headers say: Content-Encoding was dropped",
    "content_length": "Content-Length was not that of the body, and was corrected",
    "cookies": "cookies that stand beside the headers",
    "decoded": "a body was written decoded and without Content-Encoding, which the tool needs",
    "entry_fields": "fields of an entry that nothing here reads",
    "error": "a call that failed: the format has no place for it",
    "events": "an event that is no HTTP call: the format has no place for it",
    "headers": "headers: the format has no place for them",
    "key_is_secret": "an entry whose key is nothing but a secret, so that it could not be found",
    "kept_decoded": "a body that was kept decoded, because of a secret, was encoded anew",
    "metadata": "metadata of the file",
    "no_response": "a request without an answer: there is nothing to replay",
    "not_http": "a flow or a URL that is no HTTP call",
    "not_text": "a body that is not UTF-8 text: the format holds text only",
    "order": "calls of several tasks or threads, now in one order",
    "pieces": "where the pieces of a streamed answer ended",
    "status": "the status of an answer: the format has no place for it",
    "status_assumed": "the format does not say how an answer ended: status 200 is served",
    "times": "time stamps and durations: the format has no place for them",
    "timings": "how long the phases of a call took",
    "trailers": "trailers of an answer",
    "truncated_body": "a body of which the file has only a part",
    "websocket": "messages of a websocket",
    "withheld": "a call that looked like a secret after redaction: its payload was not written",
}
"""What each kind means, for people."""


class Loss(msgspec.Struct, frozen=True):
    """One kind, and how often."""

    kind: str
    count: int

    @property
    def what(self) -> str:
        return KINDS[self.kind]

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "count": self.count, "what": self.what}


class Losses:
    """Counts. Iterates over :class:`Loss`, by the name of the kind."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, kind: str, count: int = 1) -> None:
        """``count`` more of ``kind``, which is one of :data:`KINDS`."""
        assert kind in KINDS, kind
        self._counts[kind] += count

    def __iter__(self) -> Iterator[Loss]:
        return (Loss(kind, number) for kind, number in sorted(self._counts.items()) if number)

    def __bool__(self) -> bool:
        return any(self._counts.values())

    def to_json(self) -> list[dict[str, Any]]:
        """For ``--json``."""
        return [loss.to_json() for loss in self]
