"""Extraction of searchable calls and texts from the events of a recording.

:func:`open_call` returns the call that an event starts. For a call of two events,
:func:`close_call` completes it. Clock readings, random values, sleeps and schedule events are not
calls.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import msgspec

from reenact.engine.call import DRAWS, PAIRS, SCHEDULE, SLEEP
from reenact.engine.request import kind_of, operation_of
from reenact.format.event import Data, Event
from reenact.lenses.conversation import messages, read_event
from reenact.lenses.model import Answered, Asked, Choice, Message
from reenact.views.recorded_calls import decode_content, readable_body

__all__ = [
    "CALL",
    "MOST",
    "Call",
    "CallText",
    "close_call",
    "flatten",
    "open_call",
    "opening_type",
]

_OPENINGS = {closing: opening for opening, closing in PAIRS.items()}
_NO_CALLS = {*DRAWS, SCHEDULE, SLEEP}
_BAD_STATUS = 400
_IDS = re.compile(r"(?i)(^|-)(id|ray|trace)$|traceparent")
"""Headers with identifiers by which the other side can find a call."""


def opening_type(type: str) -> str | None:
    """Return the type of event that an event of ``type`` completes; None if it completes none."""
    return _OPENINGS.get(type)


def open_call(event: Event) -> Call | None:
    """Return the call that ``event`` starts; None for an event that is not a call.

    An event that completes an unknown call is a call, too.
    """
    data = event.data
    kind = kind_of(event.type, data)
    if kind in _NO_CALLS:
        return None
    call = Call(
        seq=event.seq,
        ts=event.ts,
        type=event.type,
        lane=event.lane,
        kind=kind,
        name=operation_of(event.type, data),
        call_id=_text(data.get("callId")),
        texts=[],
    )
    _withheld(call, data)
    _FORMS.get(event.type, _anything)(call, data)
    return call


def close_call(call: Call, event: Event) -> None:
    """Add the data of ``event``, which completes ``call``."""
    data = event.data
    call.closed = event.seq
    _withheld(call, data)
    if event.type == "llm_response":
        _model_answer(call, data)
    else:
        _result(call, data)


def _withheld(call: Call, data: Data) -> None:
    withheld = data.get("withheld")
    if isinstance(withheld, dict):
        _add_text(call, "withheld", withheld.get("reason"))


def _add_text(call: Call, role: str, value: Any, *, repeated: bool = False) -> None:
    text = value if isinstance(value, str) and len(value) < 256 else flatten(value)
    if text.strip():
        call.texts.append(CallText(role, text, repeated))


# Calls of models


def _model_call(call: Call, data: Data) -> None:
    call.provider, call.model = _text(data.get("provider")), _text(data.get("model"))
    call.lens = _text(data.get("lens"))
    request = _part(data, "request")
    _place(call, request)
    _add_text(call, CALL, f"{call.name} {call.url}")
    asked = read_event(data)
    if not isinstance(asked, Asked):
        _add_text(call, "request", request or _rest(data))
        return
    for message in messages(asked):
        _add_text(call, message.role or "message", _message(message), repeated=True)


def _message(message: Message | Choice) -> str:
    """Return a message as text.

    A response gets the same text as the message that repeats it in the next request.
    """
    parts = [thought.text for thought in message.reasoning]
    parts.append(message.text)
    parts += [f"{use.name} {use.id}\n{flatten(use.arguments)}" for use in message.tool_calls]
    if isinstance(message, Message):
        parts += [_joined(f"{one.name} {one.id}".strip(), one.text) for one in message.results]
    else:
        parts.append(message.refusal or "")
    return flatten("\n".join(part for part in (*parts, *message.attached) if part.strip()))


def _model_answer(call: Call, data: Data) -> None:
    response = _part(data, "response")
    _outcome(call, data, response)
    answer = read_event(data, lens=call.lens, undo=decode_content)
    if not isinstance(answer, Answered):
        _add_text(call, "answer", _body(response) if response else _rest(data))
        return
    for choice in (answer, *answer.others):
        _add_text(call, "answer", _message(choice))
    _add_text(call, "id", answer.id)
    if answer.error:
        call.failed = True
        _add_text(call, "error", answer.error)


# Other calls


def _tool_call(call: Call, data: Data) -> None:
    _add_text(call, CALL, f"{call.name} {call.call_id}".strip())
    _add_text(call, "arguments", data.get("args"))


def _result(call: Call, data: Data) -> None:
    call.failed = call.failed or data.get("ok") is False
    _outcome(call, data, {})
    _add_text(call, "result", data.get("result"))


def _single(call: Call, data: Data) -> None:
    """Read a call of one event, which contains the request and the response."""
    request, response = _part(data, "request"), _part(data, "response")
    call.closed = call.seq
    if "url" in request:
        _place(call, request)
        call.name = call.method or call.name
        _add_text(call, CALL, f"{call.method} {call.url}")
        _outcome(call, data, response)
        _add_text(call, "request", readable_body(request.get("body"), request.get("headers")))
        _add_text(call, "response", _body(response))
        return
    call.name = _text(data.get("op")) or _text(data.get("key")) or call.name
    argv = request.get("argv")
    _add_text(call, CALL, " ".join(map(str, argv)) if isinstance(argv, list) else call.name)
    code = response.get("exitCode")
    call.status = code if type(code) is int else 0
    call.failed = call.status != 0
    _outcome(call, data, {})
    _add_text(call, "request", {name: item for name, item in request.items() if name != "argv"})
    if not request:
        _add_text(call, "value", data.get("request", data.get("value")))
    turns = {name: item for name, item in response.items() if name != "turns"}
    _add_text(call, "response", turns or data.get("response"))


def _run_start(call: Call, data: Data) -> None:
    argv = data.get("argv")
    _add_text(call, CALL, " ".join(map(str, argv)) if isinstance(argv, list) else argv)
    _add_text(call, "input", data.get("input"))


def _run_end(call: Call, data: Data) -> None:
    call.closed = call.seq
    code = data.get("exitCode")
    call.status = code if type(code) is int else 0
    call.name = _text(data.get("status"))
    call.failed = call.status != 0 or call.name == "error"
    _add_text(call, CALL, call.name)
    _outcome(call, data, {})
    _add_text(call, "output", data.get("output"))


def _anything(call: Call, data: Data) -> None:
    call.closed = call.seq
    _add_text(call, CALL, call.name)
    _add_text(call, "data", _rest(data))
    _outcome(call, data, {})


_FORMS = {
    "llm_request": _model_call,
    "tool_call": _tool_call,
    "nondeterministic": _single,
    "run_start": _run_start,
    "run_end": _run_end,
}


# Common helpers


def _place(call: Call, request: Data) -> None:
    call.method, call.url = _text(request.get("method")), _text(request.get("url"))
    try:
        call.host = urlsplit(call.url).hostname or ""
    except ValueError:
        call.host = ""


def _outcome(call: Call, data: Data, response: Data) -> None:
    """Read the status, the identifiers and the errors of a response."""
    status = response.get("status")
    if type(status) is int:
        call.status = status
        call.failed = call.failed or status >= _BAD_STATUS
    headers = response.get("headers")
    for pair in headers if isinstance(headers, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and _IDS.search(str(pair[0])):
            _add_text(call, "id", f"{pair[0]}: {pair[1]}")
    for error in (data.get("error"), response.get("error")):
        if error is None:
            continue
        call.failed = True
        if isinstance(error, dict):
            name = _text(error.get("class"))
            if name.rpartition(".")[2] == "DivergenceError":
                call.diverged = _text(error.get("code")) or "divergence"
            error = _joined(name, _text(error.get("message"))) or error
        _add_text(call, "error", error)


def _body(response: Data) -> Any:
    if "decoded" in response:
        return readable_body(response["decoded"], None)
    return readable_body(response.get("body"), response.get("headers"))


_BOOKS = frozenset(
    "key rawHash timing volatile redacted position inner valueHash inputHash".split()
)


def _rest(data: Data) -> Data:
    return {name: item for name, item in data.items() if name not in _BOOKS and name != "error"}


def _joined(name: str, text: str) -> str:
    return f"{name}: {text}" if name and text else name or text


def _part(data: Data, name: str) -> Data:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


CALL = "call"
"""Role of the text that describes the called function or address."""


class CallText(msgspec.Struct, frozen=True):
    """Text of a call. ``role`` is ``user``, ``answer``, ``request``, ``result`` …

    ``repeated`` is True for a message that a conversation repeats with every call. Only its first
    occurrence is stored.
    """

    role: str
    text: str
    repeated: bool = False


class Call(msgspec.Struct, kw_only=True):
    """Call, or start or end of a run.

    ``closed`` is the sequence number of the completing event. Unknown values are empty or 0.
    """

    seq: int
    ts: int
    type: str
    """Type of the event that started the call."""
    lane: str
    log: str = ""
    """Segment of an unfinished capture that contains the call.

    For a divergence, its number in the report.
    """
    closed: int = 0
    kind: str = ""
    """``llm``, ``tool``, ``network`` …"""
    name: str = ""
    provider: str = ""
    model: str = ""
    method: str = ""
    url: str = ""
    host: str = ""
    status: int = 0
    """HTTP status, or exit code of a process or a run."""
    failed: bool = False
    diverged: str = ""
    """Code of a divergence."""
    call_id: str = ""
    lens: str = ""
    texts: list[CallText] = []


MOST = 1 << 20
"""Maximum number of characters of one text that are searched."""

_LONG, _KEPT = 2048, 256
_ENCODED = re.compile(rf"[A-Za-z0-9+/=_-]{{{_LONG},}}")
_NUMBERS = 64


def flatten(value: Any) -> str:
    """Return ``value`` as lines ``name: value``, with at most :data:`MOST` characters.

    Binary data and long lists of numbers are omitted. Encoded content such as pictures is
    shortened.
    """
    if isinstance(value, str):
        return _scalar(value)
    lines = _Lines()
    lines.add(value, "")
    return "\n".join(lines.found)[:MOST]


class _Lines:
    """Collector of lines, up to :data:`MOST` characters."""

    __slots__ = ("found", "room")

    def __init__(self) -> None:
        self.found: list[str] = []
        self.room = MOST

    def add(self, value: Any, name: str) -> None:
        if isinstance(value, dict):
            if name and value:
                self._line(f"{name}:")
            for key, item in value.items():
                if self.room <= 0:
                    return
                if type(item) is str and len(item) < _LONG:  # the usual case
                    if item:
                        self._line(f"{key}: {item}")
                else:
                    self.add(item, key)
        elif isinstance(value, (list, tuple)):
            self._listed(value, name)
        else:
            text = _scalar(value)
            if text:
                self._line(f"{name}: {text}" if name else text)

    def _line(self, text: str) -> None:
        self.found.append(text)
        self.room -= len(text) + 1

    def _listed(self, items: list[Any] | tuple[Any, ...], name: str) -> None:
        if len(items) > _NUMBERS and all(type(item) in (int, float) for item in items):
            return
        if any(isinstance(item, (dict, list, tuple)) for item in items):
            for item in items:
                if self.room <= 0:
                    return
                self.add(item, name)
            return
        text = " ".join(filter(None, map(_scalar, items)))
        if text:
            self._line(f"{name}: {text}" if name else text)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        text = value if len(value) <= MOST else value[:MOST]
        return _ENCODED.sub(_beginning, text) if len(text) > _LONG else text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return _scalar(value.decode("utf-8"))
        except UnicodeDecodeError:
            return ""
    return "" if value is None else str(value)


def _beginning(found: re.Match[str]) -> str:
    return found[0][:_KEPT]
