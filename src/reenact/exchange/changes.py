"""What became of a document: compact, bounded, as lineage keeps it."""

from __future__ import annotations

from typing import Any, Final

from reenact.diff.values import Difference, differences
from reenact.exchange.model import Change
from reenact.exchange.pointer import spell_pointer

__all__ = ["MOST_CHANGES", "diff"]

MOST_CHANGES: Final = 200


def diff(before: Any, after: Any, *, limit: int = MOST_CHANGES) -> tuple[Change, ...]:
    """The changes that lead from ``before`` to ``after``, in the order of a walk. Where they are
    more than ``limit``, the parts of the document that changed, each as a whole.

    Both are made of what canonical JSON can hold, bytes included; else :class:`ValueRefused`.
    """
    found = differences(before, after, limit=limit + 1)
    if len(found) <= limit:
        return tuple(map(_change, found))
    if not isinstance(before, dict) or not isinstance(after, dict):
        return (Change(op="replace", path="", before=before, after=after),)
    names = [name for name in after if before.get(name) != after[name]]
    return tuple(
        Change(
            op="replace",
            path=spell_pointer([name]),
            before=before.get(name),
            after=after[name],
        )
        for name in names[:limit]
    )


def _change(one: Difference) -> Change:
    path = spell_pointer(one.path)
    if one.kind == "added":
        return Change(op="add", path=path, after=one.observed)
    if one.kind == "removed":
        return Change(op="remove", path=path, before=one.expected)
    return Change(op="replace", path=path, before=one.expected, after=one.observed)
