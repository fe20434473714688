"""One-line summaries of events. Any field of recorded data can have any type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reenact.cli._output import count, escape_controls, preview

__all__ = ["summary"]

_LIMIT = 400

Data = dict[str, Any]


def summary(kind: str, data: Data) -> str:
    """Return one line about an event. It is escaped; the caller clips it to the width of the screen."""
    if isinstance(data.get("withheld"), dict):
        return f"withheld: {_text(data['withheld'].get('reason'))}"
    return _SUMMARIES.get(kind, _other)(data)


def _text(value: Any) -> str:
    """Format a value inside a sentence: strings without quotes, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return escape_controls(value[:_LIMIT])
    return preview(value, _LIMIT)


def _words(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _named(name: str, value: Any) -> str:
    return "" if value is None else f"{name} {_text(value)}"


def _part(data: Data, name: str) -> Data:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _error(data: Data) -> str:
    error = data.get("error")
    if not isinstance(error, dict):
        return _named("error", error)
    message = _text(error.get("message"))
    return f"{_text(error.get('class')) or 'error'}{': ' if message else ''}{message}"


def _model(data: Data) -> str:
    return "/".join(filter(None, (_text(data.get("provider")), _text(data.get("model")))))


def _run_start(data: Data) -> str:
    argv = data.get("argv")
    words = " ".join(map(_text, argv)) if isinstance(argv, list) else _text(argv)
    return _words(words, _text(data.get("input")))


def _run_end(data: Data) -> str:
    return _words(
        _text(data.get("status")),
        _named("exit", data.get("exitCode")),
        _error(data),
        _text(data.get("output")),
    )


def _llm_request(data: Data) -> str:
    messages = data.get("messages")
    for request in (_part(data, "request"), _part(_part(data, "request"), "body")):
        messages = messages if isinstance(messages, list) else request.get("messages")
    parts = (
        _model(data),
        _named("call", data.get("call")),
        _named("attempt", data.get("attempt")),
        count(len(messages), "message") if isinstance(messages, list) else "",
    )
    return ", ".join(filter(None, parts))


def _llm_response(data: Data) -> str:
    outcome = _error(data) or _text(data.get("stopReason"))
    usage = data.get("usage")
    return _words(_model(data), outcome, "" if usage is None else preview(usage, _LIMIT))


def _tool_call(data: Data) -> str:
    return f"{_text(data.get('name'))}({preview(data.get('args'), _LIMIT)})"


def _tool_result(data: Data) -> str:
    if data.get("ok") is False or "error" in data:
        return _words("failed", _text(data.get("callId")), _error(data))
    return _words("ok", _text(data.get("callId")), preview(data.get("result"), _LIMIT))


def _state_mutation(data: Data) -> str:
    details = data.get("details")
    if isinstance(details, dict) and isinstance(details.get("path"), str):
        return _words(_text(data.get("type")), _text(details["path"]), _but_path(details))
    return _words(_text(data.get("type")), preview(details, _LIMIT))


def _but_path(data: Data) -> str:
    rest = {name: item for name, item in data.items() if name != "path"}
    return preview(rest, _LIMIT) if rest else ""


def _nondeterministic(data: Data) -> str:
    request, response = _part(data, "request"), _part(data, "response")
    asked = _words(_text(request.get("method")), _text(request.get("url")))
    if asked:
        asked = _words(_cut_off(data), asked)
        answer = _text(response.get("status")) or _error(data) or _error(response)
    elif data.get("source") == "fs" and request:
        return _words(_text(data.get("op")), _but_path(request))
    elif "request" in data:
        asked = f"{_text(data.get('op'))}({preview(data['request'], _LIMIT)})"
        asked = _words(_cut_off(data), asked)
        answer = _answer(data)
    else:
        value = preview(data["value"], _LIMIT) if "value" in data else ""
        several = data.get("count")
        more = f"and {several - 1} more" if type(several) is int else ""
        return _words(_text(data.get("source")), _text(data.get("key")), more, value)
    return f"{asked} -> {answer}" if answer else asked


def _answer(data: Data) -> str:
    """Return the result of a function call."""
    if "error" in data:
        return _error(data)
    unanswered = [word for word in ("cancelled", "unfinished") if data.get(word) is True]
    if unanswered or "response" not in data:
        return _words(*unanswered)
    return preview(data["response"], _LIMIT)


def _cut_off(data: Data) -> str:
    """Return how a stream ended if the program did not read it to the end."""
    ended = _text(data.get("ended"))
    return "" if ended in ("done", "failed") else ended


def _other(data: Data) -> str:
    return preview(data, _LIMIT)


_SUMMARIES: dict[str, Callable[[Data], str]] = {
    "run_start": _run_start,
    "run_end": _run_end,
    "llm_request": _llm_request,
    "llm_response": _llm_response,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
    "state_mutation": _state_mutation,
    "nondeterministic": _nondeterministic,
}
