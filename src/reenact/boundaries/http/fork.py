"""Changed requests and responses at a fork point."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from reenact.boundaries.http.bodies import describe
from reenact.boundaries.http.encoding import Pairs, coding_of, encode, look
from reenact.boundaries.http.stored_body import HIDDEN, served_body
from reenact.boundaries.http.wire import Request
from reenact.engine.call import Call
from reenact.engine.fork.plan import replace_at_path
from reenact.engine.session.session import Session
from reenact.errors import UsageError
from reenact.format.event import Data
from reenact.format.json_path import Path, join

__all__ = [
    "Resend",
    "alter_answer",
    "request_bytes",
    "resent",
    "with_model",
]

Resend = Callable[[Request], Callable[[], Any]]
"""Of a boundary: the function that makes the live call with another request."""

_IN_PATH = re.compile(r"(/(?:models?|deployments)/)([^/:?]+)(?=[:/?]|$)")
_PROMPTS = frozenset({"messages", "input", "prompt", "contents"})


def resent(
    session: Session, request: Request, call: Call, live: Any, resend: Resend | None
) -> tuple[Call, Any]:
    """Return ``call`` and ``live`` unchanged, or the replacements for the changed request of a
    fork.

    Raises :class:`UsageError` if the changed request cannot be sent.
    """
    branching = session.fork
    assert branching is not None
    other, said = request, list[str]()
    if branching.is_overridden(call):
        for path, value in branching.branch.asked.items():
            other = _changed(other, path, value)
        said += branching.branch.changed
    model = branching.branch.model
    if model is not None and branching.makes(call):
        found = with_model(other, model, known=call.type == "llm_request")
        if found is not None:
            other = found
            said.append("model")
    if other is request:
        return call, live
    _check(request, other, resend)
    assert resend is not None
    changes = {"sent": _sent(request, other), "changed": said}
    plain = None if call.plain is None else _with(call.plain, changes)
    return msgspec.structs.replace(_with(call, changes), plain=plain), resend(other)


def _with(call: Call, changes: Data) -> Call:
    return msgspec.structs.replace(call, extra={**call.extra, **changes})


def _check(request: Request, other: Request, resend: Resend | None) -> None:
    if resend is None:
        raise UsageError(
            "the boundary of this client library cannot change the request of the program",
            hint="change the response instead: --set '$.response…'",
        )
    if urlsplit(request.url)[:2] != urlsplit(other.url)[:2]:
        raise UsageError(
            "the changed request goes to another server", hint="change the path and the query only"
        )
    if any(
        key.lower() == "authorization" and value.startswith("AWS4") for key, value in _of(other)
    ):
        raise UsageError(
            "the request is signed, so it can no longer be changed",
            hint="change the request in the program, or use a bearer token instead of a signature",
        )


def _sent(request: Request, other: Request) -> Data:
    sent: Data = {"headers": [list(pair) for pair in _of(other)]}
    if other.url != request.url:
        sent["url"] = other.url
    if other.body != request.body:
        sent["body"] = describe(_of(other), other.body).get("body")
    return sent


def _of(request: Request) -> Pairs:
    return tuple(request.headers)


# Changes of the request


def _changed(request: Request, path: Path, value: Any) -> Request:
    """Return ``request`` with ``value`` at ``path``, which is a path in the recorded event."""
    match path:
        case ("request", "url"):
            return msgspec.structs.replace(request, url=str(value))
        case ("request", "method"):
            return msgspec.structs.replace(request, method=str(value))
        case ("request", "body", *rest):
            return _with_body(request, lambda text: replace_at_path(text, tuple(rest), value))
    raise UsageError(
        f"{join(path)} is nothing that can be sent otherwise",
        hint="$.request.body…, $.request.url or $.request.method",
    )


def _with_body(request: Request, change: Callable[[str], Any]) -> Request:
    coding = coding_of(request.headers)
    body = request.body
    seen = None if coding is None else look(body, coding)
    text = (body if seen is None else seen.text).decode("utf-8", "replace")
    changed = change(text)
    if not isinstance(changed, str):
        changed = json.dumps(changed, ensure_ascii=False, separators=(",", ":"))
    content = changed.encode()
    if coding is not None and seen is not None:
        content = encode(content, coding)
    headers = tuple(
        (key, str(len(content)) if key.lower() == "content-length" else value)
        for key, value in request.headers
    )
    return msgspec.structs.replace(request, body=content, headers=headers)


def with_model(request: Request, model: str, *, known: bool = False) -> Request | None:
    """Return ``request`` with a different model in its body or path.

    Returns None if it is not a model call. ``known`` means that it certainly is one.
    """
    try:
        body = json.loads(request.body)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not (known or _PROMPTS & body.keys()):
        return None
    path = urlsplit(request.url).path
    moved, count = _IN_PATH.subn(lambda found: found[1] + quote(model, safe=""), path, count=1)
    other = request
    if count:
        url = request.url.replace(path, moved, 1)
        other = msgspec.structs.replace(other, url=url)
    if isinstance(body.get("model"), str):
        other = _with_body(other, lambda text: replace_at_path(text, ("model",), model))
    return None if other is request else other


def request_bytes(request: Request) -> bytes:
    """Return ``request`` in the wire format of HTTP/1."""
    parts = urlsplit(request.url)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    framing = ("content-length", "transfer-encoding")
    kept = [pair for pair in request.headers if pair[0].lower() not in framing]
    if request.body:
        kept.append(("Content-Length", str(len(request.body))))
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{key}: {value}" for key, value in kept)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + request.body


_BODY: Path = ("response", "body")
_DATA = re.compile(r"^(data: ?)(.*)$", re.MULTILINE)


def alter_answer(data: Data, path: Path, value: Any) -> Data:
    """Implement :data:`reenact.engine.fork.plan.ChangeData` for HTTP.

    The body of an HTTP response is decoded before the change. The result is one piece, and its head
    gets the new length.
    """
    if path[:2] != _BODY or not _is_http(data.get("response")):
        changed: Data = replace_at_path(data, path, value)
        return changed
    response = _readable(data["response"])
    if len(path) > 2 and isinstance(path[2], int) and _is_stream(response):
        body = _in_stream(response["body"], path, value)
        return {**data, "response": _consistent({**response, "body": body})}
    changed = replace_at_path({**data, "response": response}, path, value)
    return {**changed, "response": _consistent(changed["response"])}


def _is_stream(response: Data) -> bool:
    said = [value for key, value in _pairs(response) if key.lower() == "content-type"]
    return "text/event-stream" in "".join(said[:1]) and isinstance(response.get("body"), str)


def _in_stream(body: str, path: Path, value: Any) -> str:
    """Change a server-sent event.

    The events are the list of all ``data:`` values, including ``[DONE]``.
    """
    found = list(_DATA.finditer(body))
    texts: list[Any] = [one[2] for one in found]
    number = path[2]
    changed = replace_at_path(texts, path[2:], value, path[:2])[number]
    text = changed if isinstance(changed, str) else _text(changed)
    one = found[int(number)]
    return body[: one.start(2)] + text + body[one.end(2) :]


def _is_http(response: Any) -> bool:
    return isinstance(response, dict) and {"status", "headers"} <= response.keys()


def _readable(response: Data) -> Data:
    """Return the response with a decoded body. Its coding is stored as ``decoded``."""
    body = response.get("body")
    coding = coding_of(_pairs(response))
    if HIDDEN in response or coding is None or "decoded" in response:
        return response
    seen = look(body.encode() if isinstance(body, str) else body or b"", coding)
    if seen is None or seen.end != "whole":
        return response
    return {**response, "body": seen.text.decode("utf-8", "replace"), "decoded": coding}


def _consistent(response: Data) -> Data:
    whole = {key: item for key, item in response.items() if key not in ("cuts", "left")}
    if not isinstance(whole.get("body"), (str, bytes)):
        whole["body"] = _text(whole.get("body"))
    length = len(served_body(whole, _pairs(whole)) or b"")
    whole["headers"] = [
        [key, str(length) if key.lower() == "content-length" else value]
        for key, value in _pairs(whole)
    ]
    return whole


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _pairs(response: Data) -> list[tuple[str, str]]:
    return [(str(key), str(value)) for key, value in response.get("headers", ())]
