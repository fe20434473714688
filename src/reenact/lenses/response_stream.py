"""OpenAI Responses that come as events, put together again."""

from __future__ import annotations

from typing import Any

from reenact.lenses.fields import listed, mapped, text

__all__ = ["ENDINGS", "Gathering"]

ENDINGS = ("response.completed", "response.incomplete", "response.failed", "error")

_PIECES = {
    "response.output_text.delta": ("message", "content", "text"),
    "response.refusal.delta": ("message", "content", "refusal"),
    "response.reasoning_text.delta": ("reasoning", "content", "text"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "text"),
    "response.function_call_arguments.delta": ("function_call", "", "arguments"),
    "response.custom_tool_call_input.delta": ("custom_tool_call", "", "input"),
    "response.mcp_call_arguments.delta": ("mcp_call", "", "arguments"),
}
"""For each event that has a piece: the type of its item, the list in there that has the parts, and
the field of the part."""


class Gathering:
    """Takes events. The last one has the whole response; what breaks off before it is put together
    from the items that were ended, and from the pieces of those that were not."""

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        """The response as the last event with one has it."""
        self._items: dict[int, _Item] = {}

    def add(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        if isinstance(response, dict):
            self.head = response
            return
        kind = event.get("type")
        if kind in ("response.output_item.added", "response.output_item.done"):
            self._at(event).set(mapped(event.get("item")), kind.endswith("done"))
        elif isinstance(kind, str) and kind in _PIECES:
            self._at(event).add(_PIECES[kind], event)

    def _at(self, event: dict[str, Any]) -> _Item:
        index = event.get("output_index")
        return self._items.setdefault(index if type(index) is int else -1, _Item())

    def items(self) -> list[Any]:
        """What the response has, or, where it says nothing of it, what came before."""
        output = listed(self.head.get("output"))
        return output or [item.whole() for _, item in sorted(self._items.items())]


class _Item:
    def __init__(self) -> None:
        self._known: dict[str, Any] = {}
        self._ended = False
        self._kind = ""
        self._pieces: dict[tuple[str, int, str], list[str]] = {}

    def set(self, item: dict[str, Any], ended: bool) -> None:
        self._known, self._ended = item, ended

    def add(self, place: tuple[str, str, str], event: dict[str, Any]) -> None:
        self._kind, parts, field = place
        index = event.get("summary_index" if parts == "summary" else "content_index")
        at = index if type(index) is int else 0
        self._pieces.setdefault((parts, at, field), []).append(text(event.get("delta")))

    def whole(self) -> dict[str, Any]:
        if self._ended:
            return self._known
        found: dict[str, Any] = {"type": self._kind, **self._known}
        lists: dict[str, list[Any]] = {}
        for (parts, _, field), pieces in sorted(self._pieces.items()):
            told = "".join(pieces)
            if parts:
                lists.setdefault(parts, []).append({field: told})
            else:
                found[field] = told
        return {**found, **lists}
