"""A function of the program that is called with other arguments, where a run is forked."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.engine.answers import owned
from reenact.engine.branch import set_at
from reenact.engine.call import Call

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["otherwise"]

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
    changed = owned(dict(bound.arguments))
    for path, value in branching.branch.asked.items():
        changed = set_at(changed, path[1:], value, path[:1])
    bound.arguments.update(changed)
    extra = {**call.extra, "sent": owned(changed), "changed": list(branching.branch.changed)}
    return msgspec.structs.replace(call, extra=extra), (bound.args, bound.kwargs)
