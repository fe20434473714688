"""Tools of a run: lookup by name, and results as text for the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from reenact.agents.loop import Outcome
from reenact.agents.messages import ToolRequest, ToolSpec
from reenact.agents.model_failures import error_text
from reenact.engine.codecs import RecordedFailure
from reenact.errors import (
    PolicyRefused,
    ReenactError,
    ToolNotRecorded,
    UsageError,
    ValueRefused,
    did_you_mean,
)
from reenact.tools.tool import Tool, tool
from reenact.tools.values import to_plain

__all__ = ["Toolbox", "told"]


_TOLD: Final = (PolicyRefused, RecordedFailure, ToolNotRecorded)
"""Reenact errors that count as the result of a tool. The model receives them like other errors."""


class Toolbox:
    """Tools of a run.

    Other callables are wrapped as tools. Raises :class:`UsageError` for two tools of the same name.
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
        """Descriptions of the tools for the model."""
        return tuple(ToolSpec(**one.definition) for one in self._tools.values())

    def find(self, request: ToolRequest) -> Tool[..., Any] | Outcome:
        """Return the requested tool, or an error for the model if the tool or its arguments are
        invalid."""
        found = self._tools.get(request.name)
        if found is None:
            names = list(self._tools)
            near = did_you_mean(request.name, names) if names else "there are none"
            return Outcome(f"there is no tool {request.name[:128]!r}; {near}", is_error=True)
        if request.arguments is None:
            return Outcome("the arguments are not a JSON object", is_error=True)
        return found


def told(result: Any) -> str:
    """Return the text of ``result`` for a model: a string unchanged, other values as JSON."""
    if isinstance(result, str):
        return result
    try:
        return json.dumps(to_plain(result), ensure_ascii=False)
    except (ValueRefused, TypeError, ValueError):
        return str(result)  # without a session a tool can return any value


def failed(error: Exception) -> Outcome:
    """Return the outcome of a failed tool for the model.

    Raises ``error`` itself if Reenact was misused, because the model cannot correct that.
    """
    if isinstance(error, ReenactError) and not isinstance(error, _TOLD):
        raise error
    return Outcome(error_text(error), is_error=True)
