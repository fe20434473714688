"""Location of a path inside a request, in words."""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec

from reenact.format.json_path import Path, lookup
from reenact.policy.redaction.structure import is_pair, pair_name
from reenact.views.explain.case import Case, DifferingPlace

__all__ = ["RequestLocation", "locate"]

Kind = Literal[
    "message", "system", "tool", "model", "setting", "header", "query", "url", "argument", "other"
]
_MESSAGES = frozenset({"messages", "input", "contents"})
_SYSTEM = frozenset({"system", "instructions", "systemInstruction", "system_instruction"})
_TOOLS = frozenset({"tools", "functions", "toolConfig", "tool_config"})


class RequestLocation(msgspec.Struct, frozen=True):
    """Location in a request. ``name`` is the role, tool, header, parameter or argument."""

    kind: Kind
    words: str
    name: str = ""


def locate(case: Case, place: DifferingPlace) -> RequestLocation:
    """Return the location of ``place`` in the request."""
    path = place.path
    if not path:
        return RequestLocation("other", place.gap.path)
    inside = path[1:] if path[0] == "request" else path
    if case.is_model_call:
        body = inside[1:] if inside[:1] == ("body",) else inside
        found = _of_model(case, path, body)
        if found is not None:
            return found
    if path[0] == "args" or _is_function(case, path):
        return _argument(case, path)
    if inside[:1] == ("headers",):
        return _header(case, place, path)
    if inside == ("url",):
        return _of_url(place)
    return RequestLocation("other", place.gap.path, _name(path))


def _name(path: Path) -> str:
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _of_model(case: Case, path: Path, body: Path) -> RequestLocation | None:
    first = body[0] if body else ""
    if first in _MESSAGES and len(body) > 1 and isinstance(body[1], int):
        whole = _at(case, path[: len(path) - len(body) + 2])
        role = whole.get("role") if isinstance(whole, dict) else None
        kind = whole.get("type") if isinstance(whole, dict) and role is None else None
        who = role or ("tool" if kind == "function_call_output" else kind)
        who = who if isinstance(who, str) else ""
        told = f" ({who})" if who else ""
        return RequestLocation("message", f"message {body[1] + 1}{told}", who)
    if first in _SYSTEM or body == ("input",):
        return RequestLocation(
            "system", "the system prompt" if first in _SYSTEM else "the input", str(first)
        )
    if first in _TOOLS:
        return _of_tool(case, path, body)
    if body in (("model",), ("modelId",)):
        return RequestLocation("model", "the model", "model")
    if first in ("headers", "url", "method", ""):
        return None
    return RequestLocation("setting", f"the setting {_name(path)}", _name(path))


def _of_tool(case: Case, path: Path, body: Path) -> RequestLocation:
    number = next((at for at, step in enumerate(body) if isinstance(step, int)), None)
    if number is None:
        return RequestLocation("tool", "the tool definitions")
    whole = _at(case, path[: len(path) - len(body) + number + 1])
    name = _tool_name(whole)
    return RequestLocation(
        "tool", f"the definition of the tool {name}" if name else "a tool definition", name
    )


def _tool_name(whole: Any) -> str:
    for one in (whole, *(whole.values() if isinstance(whole, dict) else ())):
        name = one.get("name") if isinstance(one, dict) else None
        if isinstance(name, str):
            return name
    return ""


def _is_function(case: Case, path: Path) -> bool:
    """Return whether the call is a function call of a boundary, and not HTTP."""
    data = case.asked if isinstance(case.asked, dict) else case.recorded
    request = data.get("request") if isinstance(data, dict) else None
    return path[0] == "request" and isinstance(request, dict) and "url" not in request


def _argument(case: Case, path: Path) -> RequestLocation:
    seen = case.divergence.observed or case.divergence.expected
    what = "" if seen is None else seen.operation.rpartition(" ")[2]
    name = str(path[1]) if len(path) > 1 else ""
    if path[:2] == ("request", "argv"):
        return RequestLocation("argument", f"the command line of {what}", name)
    return RequestLocation("argument", f"the argument {name} of {what}".replace("  ", " "), name)


def _header(case: Case, place: DifferingPlace, path: Path) -> RequestLocation:
    at = path.index("headers") + 1
    step = path[at] if len(path) > at else ""
    pair: Any = None
    if isinstance(step, int):
        pair = _at(case, path[: at + 1])
        if not is_pair(pair):
            pair = place.gap.observed or place.gap.expected
    name = step if isinstance(step, str) else pair_name(pair[0]) if is_pair(pair) else ""
    return RequestLocation("header", f"the header {name}" if name else "the headers", name)


def _of_url(place: DifferingPlace) -> RequestLocation:
    """Return the part of the URL that differs, if it is a single part."""
    try:
        mine, theirs = urlsplit(place.gap.expected), urlsplit(place.gap.observed)
    except (AttributeError, TypeError, ValueError):
        return RequestLocation("url", "the URL", "url")
    if mine._replace(query="") != theirs._replace(query=""):
        same_path = (mine.path, mine.query) == (theirs.path, theirs.query)
        return RequestLocation("url", "the address in the URL" if same_path else "the URL", "url")
    pairs = {*parse_qsl(mine.query, True)} ^ {*parse_qsl(theirs.query, True)}
    names = sorted({name for name, _ in pairs})
    if len(names) == 1:
        return RequestLocation("query", f"the parameter {names[0]} of the URL", names[0])
    return RequestLocation("url", "the parameters of the URL", "url")


def _at(case: Case, path: Path) -> Any:
    for whole in (case.asked, case.recorded):
        try:
            return lookup(whole, path)
        except (LookupError, TypeError):
            continue
    return None
