"""A function of the program that is called with other arguments, where a run is forked."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.engine.answers import owned
from reenact.engine.branch import Branch, set_at
from reenact.engine.call import Call
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["other_arguments", "otherwise"]

_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def otherwise(
    session: Session,
    call: Call,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Call, _Arguments]:
    """``call``, and the arguments that the function is called with if it is made. What is compared
    stays what the program asked; the others are recorded as what was ``sent``."""
    branching = session.branching
    if branching is None or not branching.asks_otherwise(call):
        return call, (args, kwargs)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    call, changed = _changed(call, owned(dict(bound.arguments)), branching.branch)
    bound.arguments.update(changed)
    return call, (bound.args, bound.kwargs)


def other_arguments(session: Session, call: Call) -> tuple[Call, Data | None]:
    """``call`` of a tool, and the arguments, as plain data, that it is called with instead if it is
    made; None for its own."""
    branching = session.branching
    if branching is None or not branching.asks_otherwise(call):
        return call, None
    return _changed(call, call.request["args"], branching.branch)


def _changed(call: Call, arguments: Data, branch: Branch) -> tuple[Call, Data]:
    for path, value in branch.asked.items():
        arguments = set_at(arguments, path[1:], value, path[:1])
    extra = {**call.extra, "sent": owned(arguments), "changed": list(branch.changed)}
    return msgspec.structs.replace(call, extra=extra), arguments
