"""What the recorded run itself did to the files.

A program that reads its state and writes it anew leaves other files than it found. Replayed in the
same place it finds those: no change from outside, and so nothing that anybody has to be told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final
from weakref import WeakKeyDictionary

from reenact.boundaries.files.roots import Watched
from reenact.engine.session.session import Session
from reenact.errors import RecordingError
from reenact.format.event import Data
from reenact.store.reader import open_recording

__all__ = ["was_left_so", "was_made", "was_removed"]

_ANY: Final = "any"
_MISSING: Final = "missing"

_States = dict[str, set[str]]
_known: WeakKeyDictionary[Session, _States] = WeakKeyDictionary()


def was_left_so(file: Watched, seen: Data) -> bool:
    """Did the recorded run leave ``file`` as it is ``seen`` now?"""
    states = _states(file.session).get(file.name, set())
    now = _MISSING if seen.get("missing") else seen.get("digest")
    return now in states or (_ANY in states and now != _MISSING)


def was_made(session: Session, name: str) -> bool:
    """Did the recorded run write to the file ``name``, or to one below it?"""
    return any(one == name or one.startswith(f"{name}/") for one in _states(session))


def was_removed(session: Session, name: str) -> bool:
    """Did the recorded run remove the file ``name``?"""
    return _MISSING in _states(session).get(name, set())


def _states(session: Session) -> _States:
    found = _known.get(session)
    if found is None:
        found = _known[session] = _read(session)
    return found


def _read(session: Session) -> _States:
    states: defaultdict[str, set[str]] = defaultdict(set)
    place = session.settings.path
    if place is None:
        return states
    try:
        with open_recording(place) as source:
            for event in source:
                if event.type == "state_mutation":
                    for name, state in _effects(event.data):
                        states[name].add(state)
    except RecordingError:  # whoever reads it for the replay says so
        return states
    return states


def _effects(data: Data) -> Iterator[tuple[str, str]]:
    """The files that a recorded change is about, and how each was left."""
    details: Any = data.get("details")
    if not isinstance(details, dict):
        return
    name, to, digest = (details.get(key) for key in ("path", "to", "digest"))
    kind = data.get("type")
    if isinstance(to, str):
        yield to, digest if isinstance(digest, str) else _ANY
    if isinstance(name, str):
        gone = kind in ("file_delete", "file_rename")
        yield name, _MISSING if gone else digest if isinstance(digest, str) else _ANY
