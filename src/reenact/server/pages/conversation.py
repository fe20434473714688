"""What was said to a model, and what it answered (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reenact.server.pages.markup import Child, Html, breakable, tag
from reenact.server.pages.told import Told
from reenact.server.pages.values import block, folded, value

__all__ = ["conversation"]


def conversation(told: Told) -> Html:
    """One model call, as its messages."""
    return tag(
        "article",
        tag("h3", breakable(told.call.operation)),
        *(_message(one) for one in told.talk or ()),
        class_="talk",
    )


def _message(said: dict[str, Any]) -> Html:
    role = str(said.get("role", ""))
    known = role if role in ("user", "assistant", "system", "tool", "answer") else "other"
    return tag("div", tag("p", role, class_="role"), *_parts(said), class_=f"said {known}")


def _parts(said: dict[str, Any]) -> Iterator[Child]:
    if said.get("reasoning"):
        yield folded("Reasoning", block(str(said["reasoning"])))
    if said.get("text"):
        yield tag("div", str(said["text"]), class_="text")
    for name, arguments in said.get("calls", ()):
        yield tag("div", tag("b", f"calls {name}"), " ", value(arguments))
    for name, result in said.get("results", ()):
        yield tag("div", tag("b", f"{name or 'a tool'} gave"), " ", value(result))
    for one in said.get("attached", ()):
        yield tag("div", value(one))
    for name in ("refusal", "error", "stopped", "usage"):
        if said.get(name):
            yield tag("div", f"{name}: ", _plainly(said[name]), class_="dim")


def _plainly(item: Any) -> Child:
    """Words and counted things without the marks of JSON."""
    if isinstance(item, str):
        return item
    if isinstance(item, dict) and all(type(number) is int for number in item.values()):
        return ", ".join(f"{number:,} {name}" for name, number in item.items())
    return value(item)
