"""The tools of a run: found by name, called with what the model wrote, told back as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from reenact.agents.loop import Outcome
from reenact.agents.messages import ToolRequest, ToolSpec
from reenact.agents.model_failures import error_text
from reenact.engine.codecs import RecordedFailure
from reenact.errors import PolicyRefused, ReenactError, ToolNotRecorded, UsageError, ValueRefused
from reenact.policy.nearest import did_you_mean
from reenact.tools.tool import Tool, tool
from reenact.tools.values import to_plain

__all__ = ["Toolbox", "told"]


_TOLD: Final = (PolicyRefused, RecordedFailure, ToolNotRecorded)
"""Errors of Reenact that are the result of a tool, and that the model is told like any other."""


class Toolbox:
    """Made of tools and of any callables, each of which becomes one.

    Raises :class:`UsageError` for two of one name.
    """

    def __init__(self, tools: Sequence[Tool[..., Any] | Callable[..., Any]]) -> None:
        self._tools: dict[str, Tool[..., Any]] = {}
        for one in tools:
            made = one if isinstance(one, Tool) else tool(one)
            if made.name in self._tools:
                raise UsageError(
                    f"two tools are called {made.name}", hint="reenact.tool(function, name=…)"
                )
            self._tools[made.name] = made

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told about them."""
        return tuple(ToolSpec(**one.definition) for one in self._tools.values())

    def find(self, request: ToolRequest) -> Tool[..., Any] | Outcome:
        """The tool that is asked for; or what the model is told if there is none, or if what it
        wrote are no arguments."""
        found = self._tools.get(request.name)
        if found is None:
            names = list(self._tools)
            near = did_you_mean(request.name, names) if names else "there are none"
            return Outcome(f"there is no tool {request.name[:128]!r}; {near}", is_error=True)
        if request.arguments is None:
            return Outcome("the arguments are not a JSON object", is_error=True)
        return found


def told(result: Any) -> str:
    """What a model is told of ``result``: a text as it is, anything else as JSON."""
    if isinstance(result, str):
        return result
    try:
        return json.dumps(to_plain(result), ensure_ascii=False)
    except (ValueRefused, TypeError, ValueError):
        return str(result)  # without a session a tool may return anything


def failed(error: Exception) -> Outcome:
    """What a model is told of a tool that failed.

    Raises ``error`` itself where Reenact is misused: that is not the model's business.
    """
    if isinstance(error, ReenactError) and not isinstance(error, _TOLD):
        raise error
    return Outcome(error_text(error), is_error=True)
