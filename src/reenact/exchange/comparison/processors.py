"""What differs between two processors that are the same step of the route."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from reenact.exchange.comparison.aligning import ProcessorPair
from reenact.exchange.comparison.changes import Changed, compare_documents, single
from reenact.exchange.comparison.noise import Noise
from reenact.exchange.comparison.result import Durations, ProcessorChange, State
from reenact.exchange.model import Change, Processor
from reenact.exchange.pointer import Tokens, parse_pointer, spell_pointer
from reenact.format.canonical import digest

__all__ = ["compare_pair", "content_of"]

_REMOVED: Final = {"$removed": True}
"""What a processor left of a place that it removed."""


def content_of(one: Processor) -> str:
    """A key for what a processor did."""
    made = [[change.op, change.path, _left(change)] for change in one.changes]
    return digest([_facts(one), made])


def compare_pair(pair: ProcessorPair, noise: Noise) -> ProcessorChange:
    """What became of a processor."""
    one = pair.after or pair.before
    assert one is not None
    root = ("processors", one.processor_id)
    changes: list[Changed] = []
    if pair.before is None or pair.after is None:
        state: State = "added" if pair.before is None else "removed"
        only_noise = noise.about(root, msgspec.UNSET, msgspec.UNSET)
    else:
        changes = _changes(root, pair.before, pair.after, noise)
        if pair.moved is not None:
            changes.append(single(root, ("order",), *pair.moved, noise))
        state = "changed" if changes else "same"
        only_noise = bool(changes) and all(change.noise for change in changes)
    return ProcessorChange(
        processor_id=one.processor_id,
        iteration=one.iteration,
        path=pair.path,
        state=state,
        before=pair.before.seq if pair.before else None,
        after=pair.after.seq if pair.after else None,
        changes=tuple(changes),
        duration=Durations(
            before=pair.before.duration if pair.before else None,
            after=pair.after.duration if pair.after else None,
        ),
        noise=only_noise,
    )


def _facts(one: Processor) -> dict[str, Any]:
    """What is compared of a processor, what it made of the payload left aside."""
    facts: dict[str, Any] = {"status": one.status, "kind": one.kind}
    if one.branch:
        facts["branch"] = one.branch
    if one.error is not None:
        facts["error"] = msgspec.to_builtins(one.error)
    for name in ("input", "output"):
        value = getattr(one, name)
        if value is not msgspec.UNSET:
            facts[name] = value
    return facts


def _left(change: Change) -> Any:
    return _REMOVED if change.op == "remove" or change.after is msgspec.UNSET else change.after


def _changes(root: Tokens, before: Processor, after: Processor, noise: Noise) -> list[Changed]:
    found = compare_documents(root, _facts(before), _facts(after), noise)
    mine = {change.path: _left(change) for change in before.changes}
    theirs = {change.path: _left(change) for change in after.changes}
    for path in dict.fromkeys((*mine, *theirs)):
        place = ("changes", *parse_pointer(path))
        if path in mine and path in theirs:
            inner = compare_documents((*root, *place), mine[path], theirs[path], noise)
            head = spell_pointer(place)
            found += (msgspec.structs.replace(one, path=head + one.path) for one in inner)
        else:
            left, right = (side.get(path, msgspec.UNSET) for side in (mine, theirs))
            found.append(single(root, place, left, right, noise))
    return found
