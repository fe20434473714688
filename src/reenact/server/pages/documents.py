"""The payload before and after each processor, from the start and what each of them changed (pure)."""

from __future__ import annotations

from typing import Any

import msgspec

from reenact.errors import ReenactError
from reenact.exchange.document import to_document
from reenact.exchange.model import Change, Exchange
from reenact.exchange.patch import Op, apply

__all__ = ["Passage", "passages"]


class Passage(msgspec.Struct, frozen=True):
    """The documents before and after a processor."""

    before: Any
    after: Any


def passages(exchange: Exchange) -> dict[int, Passage]:
    """By the seq of the processor, for those that changed the payload. What does not fit what was
    there before is left out, and so is all that follows: it would be a guess."""
    around = {one.parent_seq for one in exchange.processors}
    found: dict[int, Passage] = {}
    try:
        document = to_document(exchange.start)
        for one in exchange.processors:
            if one.changes and one.seq not in around:
                after = apply(document, [_op(change) for change in one.changes])
                found[one.seq] = Passage(document, after)
                document = after
    except ReenactError:
        return found
    return found


def _op(change: Change) -> Op:
    if change.op == "remove":
        return Op(op="remove", path=change.path)
    return Op(op=change.op, path=change.path, value=change.after)
