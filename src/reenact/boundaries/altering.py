"""Another answer, or another request, where a run is forked."""

from __future__ import annotations

import json
import re
from typing import Any

from reenact.boundaries.coding import coding_of, look
from reenact.boundaries.packed import HIDDEN, served_body
from reenact.engine.fork.plan import replace_at_path
from reenact.format.event import Data
from reenact.format.json_path import Path

__all__ = ["alter_answer"]

_BODY: Path = ("response", "body")
_DATA = re.compile(r"^(data: ?)(.*)$", re.MULTILINE)


def alter_answer(data: Data, path: Path, value: Any) -> Data:
    """See :data:`reenact.engine.fork.plan.ChangeData`. The body of an HTTP answer is looked into decoded; it
    comes in one piece then, as long as its head says."""
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
    """Server-sent events are a list of what is behind each ``data:``, ``[DONE]`` included."""
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
    """With a body that can be looked into: as text, and its coding under ``decoded``."""
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
