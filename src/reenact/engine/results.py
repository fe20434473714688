"""Whether what a call gave when it was made again is what it gave in the recording."""

from __future__ import annotations

from reenact.engine.call import Call
from reenact.format.content import settled
from reenact.format.event import Data
from reenact.format.paths import lookup, parse
from reenact.policy.matching import Comparer

__all__ = ["is_there", "same_result"]


def same_result(comparer: Comparer, call: Call, fields: Data, recorded: Data) -> bool:
    """Are ``fields`` of a completing event those that ``recorded`` has? Places that ``call`` says
    differ in every run do not count."""
    then = {name: recorded.get(name) for name in fields}
    if call.volatile:
        fields, then = settled(fields, call.volatile), settled(then, call.volatile)
    return comparer.key(fields) == comparer.key(then)


def is_there(data: Data, path: str) -> bool:
    """Has ``data`` something at ``path``?"""
    try:
        return lookup(data, parse(path)) is not None
    except LookupError:
        return False
