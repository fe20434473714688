"""One line of text for one call, in playbooks and in recordings that tests write down.

LANE  KIND     NAME    REQUEST
0     network  get     {"x": 1}
0     llm      acme/m1 {"messages": []}
0.1   tool     search  {"q": "rain"}
0     clock    now                          a draw that is known by its name alone
0     db.query select  {"table": "people"}  a capability that the program registered
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from reenact.engine.call import CAPABILITIES, DRAWS, Call
from reenact.engine.session.explicit_api import make_explicit_call
from reenact.errors import UsageError, ValueRefused
from reenact.format.event import Data, check_lane

__all__ = ["Line", "call_of", "lines_of", "parse_line"]

_HEAD = re.compile(r"(?P<lane>[\d.]+)\s+(?P<kind>[^\s{=]+)(?:\s+(?P<name>[^\s{=]+))?\s*")
_read = json.JSONDecoder().raw_decode


class Line(msgspec.Struct, frozen=True):
    """``request`` is None where none was written; ``rest`` is the text behind it."""

    lane: str
    kind: str
    name: str
    request: Data | None
    rest: str


def lines_of(text: str) -> list[str]:
    """Return the non-empty lines of ``text`` without indentation. ``#`` starts a comment."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def parse_line(text: str) -> Line:
    """Parse one line. Raises :class:`UsageError` for an invalid line."""
    found = _HEAD.match(text)
    if found is None:
        raise _unreadable(text, "a line starts with a lane and a kind")
    rest = text[found.end() :]
    request: Any = None
    try:
        check_lane(found["lane"])
        if rest.startswith("{"):
            request, end = _read(rest)
            rest = rest[end:]
    except (ValueError, ValueRefused) as error:
        raise _unreadable(text, str(error)) from None
    return Line(found["lane"], found["kind"], found["name"] or "", request, rest.strip())


def _unreadable(text: str, why: str) -> UsageError:
    return UsageError(
        f"cannot read the line {text!r}: {why}",
        hint='LANE KIND NAME REQUEST, such as: 0 network get {"x": 1}',
    )


def call_of(line: Line) -> Call:
    """Return the call that a boundary would make.

    The network rules apply to a request with a ``url``.
    """
    request = line.request or {}
    if line.kind == "llm":
        return _llm(line.name, request)
    if line.kind == "tool":
        return make_explicit_call(line.name, request, "tool.call", None)
    if line.kind == "mutation":
        content = {"type": line.name, **request}
        return Call(
            type="state_mutation",
            capability="fs.write",
            operation="",
            request=content,
            instant=True,
        )
    capability = CAPABILITIES.get(line.kind, line.kind)
    if line.request is None:
        return _draw(line.kind, capability, line.name)
    call = make_explicit_call(line.name, request, capability, line.kind)
    return msgspec.structs.replace(
        call,
        instant=line.kind in DRAWS,
        method=str(request.get("method", "GET")),
        url=str(request.get("url", "")),
    )


def _llm(name: str, request: Data) -> Call:
    provider, _, model = name.partition("/")
    return Call(
        type="llm_request",
        capability="llm.call",
        operation=name,
        request={"provider": provider, "model": model, **request},
    )


def _draw(source: str, capability: str, key: str) -> Call:
    return Call(
        type="nondeterministic",
        capability=capability,
        operation="",
        request={},
        source=source,
        key=key,
        instant=True,
    )
