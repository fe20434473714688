"""How a recorded run is forked: the point, what is different there, and what goes live after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.engine.branch_point import At, Point, find_point
from reenact.errors import UsageError
from reenact.format.event import Data
from reenact.format.paths import Path, join, parse

if TYPE_CHECKING:
    from reenact.store.seal import Seal
    from reenact.store.source import SeekableSource

__all__ = ["Alter", "Branch", "changed_data", "make_branch", "set_at"]

Alter = Callable[[Data, Path, Any], Data]
"""The data of a completing event with another value at a path: whole and consistent."""

_ASKED = frozenset({"request", "args"})
_SHOWN = 8


class Branch(msgspec.Struct, frozen=True):
    """``answer`` is the data of the completing event that is served at the point, if that is
    changed; ``asked`` are the changes of what is asked there, by path. ``changed`` are all paths."""

    point: Point
    answer: Data | None = None
    asked: dict[Path, Any] = {}
    changed: tuple[str, ...] = ()
    model: str | None = None
    live: frozenset[str] | None = None


def make_branch(source: SeekableSource, at: At, seal: Seal | None, alter: Alter) -> Branch:
    """Find the point, and make the changed answer. Raises :class:`UsageError` for places and paths
    that there are not."""
    point = find_point(source, at.at)
    paths = {parse(text): value for text, value in at.set.items()}
    asked = {path: value for path, value in paths.items() if path[:1] and path[0] in _ASKED}
    if asked and len(asked) < len(paths):
        raise UsageError(
            "either what is asked is changed, or the answer",
            hint="leave out $.request… and $.args…, or all other paths",
        )
    opening = source.at(point.seq)
    for path, value in asked.items():
        set_at(opening.data, path, value)  # refuses a path that leads nowhere
    answer = None
    if paths and point.kind == "process":
        raise UsageError(
            "what a process said cannot be changed, nor how it is started",
            hint="fork at it, and change the program; or fork at a call of another kind",
        )
    if paths and not asked:
        answer = _answer(source, point, seal)
        for path, value in paths.items():
            answer = alter(answer, path, value)
    return Branch(
        point=point,
        answer=answer,
        asked=asked,
        changed=tuple(map(join, paths)),
        model=at.model,
        live=None if at.live is None else frozenset(at.live),
    )


def _answer(source: SeekableSource, point: Point, seal: Seal | None) -> Data:
    if point.closing is None:
        raise UsageError(
            f"the call of event {point.seq} was never answered: there is nothing to change",
            hint="leave --set out: the call goes live",
        )
    return dict(source.restored(source.at(point.closing), seal).data)


def set_at(value: Any, path: Path, new: Any, done: Path = ()) -> Any:
    """``value`` with ``new`` at ``path``. A text that holds JSON can be looked into. Raises
    :class:`UsageError` for a path that leads nowhere, with the nearest that there is."""
    if not path:
        return new
    step, *rest = path
    if isinstance(value, str):
        return _in_text(value, path, new, done)
    known = isinstance(value, dict if isinstance(step, str) else list)
    if known and isinstance(step, int) and not 0 <= step < len(value):
        known = False
    if not known or (isinstance(step, str) and step not in value):
        raise _leads_nowhere((*done, *path), done, value)
    changed = value.copy()
    changed[step] = set_at(value[step], tuple(rest), new, (*done, step))
    return changed


def _in_text(value: str, path: Path, new: Any, done: Path) -> str:
    try:
        held = json.loads(value)
    except ValueError:
        held = None
    if not isinstance(held, (dict, list)):
        raise _leads_nowhere((*done, *path), done, value)
    return json.dumps(set_at(held, path, new, done), ensure_ascii=False, separators=(",", ":"))


def _leads_nowhere(path: Path, there: Path, value: Any) -> UsageError:
    hint = f"the nearest that there is: {join(there)}"
    if isinstance(value, dict):
        names = ", ".join(list(map(str, value))[:_SHOWN])
        hint += f" with {names}" if names else " (empty)"
    elif isinstance(value, list):
        hint += f" with {len(value)} items"
    return UsageError(f"the path {join(path)} leads nowhere", hint=hint)


def changed_data(data: Data, path: Path, value: Any) -> Data:
    """See :data:`Alter`, for data that need no more than that."""
    changed: Data = set_at(data, path, value)
    return changed
