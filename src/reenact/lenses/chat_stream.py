"""Chat Completions that come in pieces, put together again."""

from __future__ import annotations

from typing import Any

from reenact.lenses.fields import joined, mapped, mappings, text

__all__ = ["Gathering"]

_TEXTS = frozenset(("content", "refusal", "reasoning_content", "reasoning"))
_HEAD = ("id", "model")


class Gathering:
    """Takes chunks, gives whole messages. Text is kept in pieces until it is asked for: adding each
    to what is there would take time in the square of its length."""

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        """``id`` and ``model`` from the first chunk that has them, ``usage`` from the last."""
        self._choices: dict[int, _Choice] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        for name in _HEAD:
            if chunk.get(name) and name not in self.head:
                self.head[name] = chunk[name]
        if chunk.get("usage"):
            self.head["usage"] = chunk["usage"]
        for item in mappings(chunk.get("choices")):
            index = item.get("index")
            at = index if type(index) is int else 0
            self._choices.setdefault(at, _Choice()).add(item)

    def choices(self) -> list[tuple[dict[str, Any], Any]]:
        """Messages as they are when they are not streamed, with their finish reasons, in order."""
        return [(choice.message(), choice.reason) for _, choice in sorted(self._choices.items())]


class _Choice:
    def __init__(self) -> None:
        self.reason: Any = None
        self._texts: dict[str, list[str]] = {}
        self._parts: list[Any] = []
        self._calls: list[_Call] = []
        self._places: dict[int, _Call] = {}
        self._details: dict[Any, dict[str, Any]] = {}
        self._audio: dict[str, Any] = {}
        self._old: _Call | None = None

    def add(self, item: dict[str, Any]) -> None:
        self.reason = item.get("finish_reason") or self.reason
        for name, value in mapped(item.get("delta")).items():
            if not value:
                continue
            if name in _TEXTS and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            else:
                self._add_other(name, value)

    def _add_other(self, name: str, value: Any) -> None:
        if name == "tool_calls":
            for fragment in mappings(value):
                self._call(fragment).add(fragment)
        elif name == "content":
            self._parts += mappings(value)
        elif name == "reasoning_details":
            for detail in mappings(value):
                self._detail(detail)
        elif name == "audio":
            self._audio |= mapped(value)
        elif name == "function_call" and isinstance(value, dict):
            self._old = self._old or _Call()
            self._old.add({"function": value})

    def _call(self, fragment: dict[str, Any]) -> _Call:
        """The call that a fragment is of: by its index, or, from servers that give none, a new one
        for each id."""
        index = fragment.get("index")
        if type(index) is int:
            known = self._places.get(index)
        else:
            known = self._calls[-1] if self._calls and not fragment.get("id") else None
        if known is None:
            known = _Call()
            self._calls.append(known)
            if type(index) is int:
                self._places[index] = known
        return known

    def _detail(self, detail: dict[str, Any]) -> None:
        index = detail.get("index")
        key = index if type(index) is int else -1 - len(self._details)
        known = self._details.setdefault(key, {"pieces": []})
        known["pieces"].append(text(detail.get("text")) or text(detail.get("summary")))
        known |= {name: item for name, item in detail.items() if text(item)}

    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: "".join(told) for name, told in self._texts.items()}
        if self._parts:
            found["content"] = [*self._parts, {"type": "text", "text": found.get("content", "")}]
        found["tool_calls"] = [call.whole() for call in self._calls]
        if self._old is not None:
            found["function_call"] = self._old.whole()["function"]
        found["reasoning_details"] = [
            {**known, "text": joined(known["pieces"])} for known in self._details.values()
        ]
        if self._audio:
            found["audio"] = self._audio
        return found


class _Call:
    """A tool call: its id and name come once, its arguments bit by bit."""

    def __init__(self) -> None:
        self._id = ""
        self._kind = "function"
        self._names: list[str] = []
        self._arguments: list[str] = []
        self._value: Any = ""

    def add(self, fragment: dict[str, Any]) -> None:
        self._id = self._id or text(fragment.get("id"))
        for kind, name in (("function", "arguments"), ("custom", "input")):
            inner = fragment.get(kind)
            if not isinstance(inner, dict):
                continue
            self._kind = kind
            if text(inner.get("name")):
                self._names.append(inner["name"])
            if text(inner.get(name)):
                self._arguments.append(inner[name])
            elif inner.get(name):
                self._value = inner[name]

    def whole(self) -> dict[str, Any]:
        arguments = "".join(self._arguments) or self._value
        inner = {"name": "".join(self._names)}
        field = "arguments" if self._kind == "function" else "input"
        return {"id": self._id, self._kind: {**inner, field: arguments}}
