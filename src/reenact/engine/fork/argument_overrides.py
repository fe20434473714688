"""Overridden arguments of a function or tool that is called at the fork point.

Comparison uses the original arguments. The arguments that are actually passed are recorded as
``sent``.
"""

from __future__ import annotations

import inspect
from typing import Any, Protocol

import msgspec

from reenact.engine.call import Call
from reenact.engine.codecs import copy_value
from reenact.engine.fork.forked_run import ForkedRun
from reenact.engine.fork.plan import ForkPlan, replace_at_path
from reenact.format.event import Data

__all__ = ["overridden_tool_arguments", "override_arguments"]

_Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class ForkableSession(Protocol):
    """A session that can be a forked run."""

    fork: ForkedRun | None


def override_arguments(
    session: ForkableSession,
    call: Call,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Call, _Arguments]:
    """Return ``call`` and the arguments to call the function with.

    The original arguments are compared. The overridden ones are recorded as ``sent``.
    """
    fork = session.fork
    if fork is None or not fork.asks_otherwise(call):
        return call, (args, kwargs)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    call, changed = _changed(call, copy_value(dict(bound.arguments)), fork.branch)
    bound.arguments.update(changed)
    return call, (bound.args, bound.kwargs)


def overridden_tool_arguments(session: ForkableSession, call: Call) -> tuple[Call, Data | None]:
    """``call`` of a tool, and the arguments, as plain data, that it is called with instead if it is
    made; None for its own."""
    fork = session.fork
    if fork is None or not fork.asks_otherwise(call):
        return call, None
    return _changed(call, call.request["args"], fork.branch)


def _changed(call: Call, arguments: Data, branch: ForkPlan) -> tuple[Call, Data]:
    for path, value in branch.asked.items():
        arguments = replace_at_path(arguments, path[1:], value, path[:1])
    extra = {**call.extra, "sent": copy_value(arguments), "changed": list(branch.changed)}
    return msgspec.structs.replace(call, extra=extra), arguments
