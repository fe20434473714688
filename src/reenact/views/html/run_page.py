"""HTML page about one run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from reenact.engine.divergence.model import Divergence
from reenact.format.event import Data, lane_order
from reenact.format.manifest import Manifest
from reenact.lenses.content import content_of
from reenact.lenses.conversation import messages, read_event
from reenact.lenses.model import Answered, Asked
from reenact.views.html.document import document, policy
from reenact.views.html.values import (
    ValueTable,
    answer_body,
    attach_pictures,
    pictures_in,
    request_body,
)
from reenact.views.recorded_calls import RecordedCall, RunCalls, decode_content, readable_body
from reenact.views.timeline.model import Span, span_of

__all__ = [
    "MOST_BYTES",
    "MOST_STEPS",
    "Window",
    "contents",
    "left_out",
    "run_page",
    "run_policy",
]

_PARTS = ("steps", "search", "bodies", "details", "summary", "list", "time")

_TOOLS = """\
<search><input id="find" type="search" placeholder="search ( / )" aria-label="search in everything">
<span id="hits" role="status"></span><button id="before" title="previous hit ( N )" hidden>&uarr;</button>
<button id="after" title="next hit ( n )" hidden>&darr;</button></search>
<span class="group"><button id="closer" title="zoom in ( + )">+</button>
<button id="wider" title="zoom out ( - )">&minus;</button>
<button id="fit" title="the whole run ( 0 )">fit</button>
<button id="order" title="by time, or event by event ( o )" aria-pressed="false">by order</button></span>
<button id="about" title="the run as a whole ( s )">summary</button>
<button id="keys" title="keys ( ? )">?</button>
"""

_BODY = """\
<section id="time" aria-label="timeline"><div class="lane axis"><span>lane</span><div class="row" id="axis"></div></div>
<div id="lanes"></div><div id="range" hidden></div></section>
<main><div id="list" role="listbox" aria-label="steps" tabindex="0"></div>
<section id="detail" tabindex="-1" aria-label="one step"></section></main>
<dialog id="help" aria-label="keys"></dialog>
"""


def run_page(
    title: str,
    contents: Any,
    *,
    back: tuple[str, str] | None = None,
    note: str = "",
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page for the ``contents`` of a recording.

    ``back``, ``note`` and ``links`` are passed to :func:`document`.
    """
    return document(
        "run",
        title,
        contents,
        tools=_TOOLS,
        body=_BODY,
        parts=_PARTS,
        back=back,
        note=note,
        links=links,
    )


def left_out(contents: Any) -> str:
    """Return a sentence about the steps that the page does not show, or an empty string."""
    left, shown = contents["left"], len(contents["steps"])
    if not left["before"] and not left["after"]:
        return ""
    whole = left["before"] + shown + left["after"]
    return (
        f"{shown:,} of {whole:,} steps; {left['before']:,} before and {left['after']:,} after them"
    )


def run_policy() -> str:
    """Return the content security policy for serving the page over HTTP."""
    return policy("run", _PARTS)


MOST_STEPS = 10_000
MOST_BYTES = 32 << 20


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a recording on one page: at most ``steps`` steps with about ``size`` bytes of content,
    starting with event ``first``."""

    first: int = 1
    steps: int = MOST_STEPS
    size: int = MOST_BYTES


def contents(
    name: str,
    manifest: Manifest,
    steps: RunCalls,
    divergences: Iterable[Divergence] = (),
    window: Window | None = None,
) -> dict[str, Any]:
    """Return the data of the page. ``left`` has the number of steps before and after the window, and the
    seq of the first step after it."""
    return _Writer(divergences).whole(name, manifest, steps, window or Window())


class _Writer:
    def __init__(self, divergences: Iterable[Divergence]) -> None:
        self._table = ValueTable()
        self._divergences: dict[int | None, list[Divergence]] = {}
        for one in divergences:
            self._divergences.setdefault(one.event_seq, []).append(one)

    def whole(
        self, name: str, manifest: Manifest, steps: RunCalls, window: Window
    ) -> dict[str, Any]:
        found = sorted((one for lane in steps.lanes.values() for one in lane), key=_seq_of)
        before = sum(1 for one in found if one.seq < window.first)
        shown: list[dict[str, Any]] = []
        for one in found[before : before + window.steps]:
            if shown and self._table.size > window.size:
                break
            shown.append(self._step(one))
        after = len(found) - before - len(shown)
        lanes = sorted({one["lane"] for one in shown}, key=lane_order)
        shown.sort(key=lambda step: (step["start"], step["seq"]))
        start = min((step["start"] for step in shown), default=manifest.created_at)
        for step in shown:
            step["start"] -= start
            step["end"] -= start
        return {
            "name": name,
            "about": _about(manifest),
            "begun": start,
            "lanes": lanes,
            "steps": shown,
            "draws": dict(sorted(steps.left_out.items())),
            "table": self._table.rows,
            "left": {
                "before": before,
                "after": after,
                "next": found[before + len(shown)].seq if after else None,
            },
            "elsewhere": [self._told(one) for left in self._divergences.values() for one in left],
        }

    def _step(self, step: RecordedCall) -> dict[str, Any]:
        span = span_of(step)
        told: dict[str, Any] = {
            "seq": span.seq,
            "closed": span.closed,
            "lane": span.lane,
            "kind": span.kind,
            "name": step.name,
            "start": span.start,
            "end": span.end,
            "detail": self._detail(step),
        }
        if _failed(step, span):
            told["failed"] = True
        found = self._divergences.pop(span.seq, [])
        if span.closed not in (None, span.seq):
            found += self._divergences.pop(span.closed, [])
        if found:
            told["divergences"] = [self._told(one) for one in found]
        step.let_go()
        return told

    def _detail(self, step: RecordedCall) -> dict[str, Any]:
        asked, answered = step.asked, step.answered
        if step.opening.type == "llm_request":
            found = self._model_call(asked, answered)
            if found is not None:
                return found
        request, response = asked.get("request"), answered.get("response")
        if isinstance(request, dict) and "url" in request:
            return self._http(asked, request, answered)
        put = self._table.put
        if step.opening.type == "tool_call":
            told = {"what": "tool", "given": put(asked.get("args"))}
            return told | self._ended(answered, answered.get("result"))
        if step.kind == "process" and isinstance(response, dict):
            return {"what": "process", "argv": put(_part(asked, "request")), "said": put(response)}
        if isinstance(request, dict) and isinstance(asked.get("op"), str):
            told = {"what": "tool", "given": put(request)}
            return told | self._ended(answered, response)
        usage = {name: n for name, n in _part(answered, "usage").items() if type(n) is int}
        return {"what": "data", "data": put({**asked, **answered}), "usage": usage}

    def _ended(self, answered: Data, result: Any) -> dict[str, Any]:
        if answered.get("error") is not None:
            return {"error": self._table.put(answered["error"])}
        return {"gave": self._table.put(result)}

    def _model_call(self, asked: Data, answered: Data) -> dict[str, Any] | None:
        question = read_event(asked)
        answer = read_event(answered, lens=_text(asked.get("lens")), undo=decode_content)
        if not isinstance(question, Asked):
            return None
        put = self._table.put
        said = [_filled(one) for one in messages(question)]
        left = attach_pictures(said, pictures_in(question.input))
        told: dict[str, Any] = {
            "what": "model",
            "model": question.model,
            "provider": question.provider,
            "streams": question.streams,
            "messages": put(said),
            "pictures": put(left),
            "tools": put(question.tools),
            "settings": put(_settings(question.input)),
            "wire": self._http(asked, _part(asked, "request"), answered),
            "error": put(answered.get("error")),
        }
        if isinstance(answer, Answered):
            whole = _filled(answer)
            whole["pictures"] = pictures_in(_values(_part(answered, "response")))
            told |= {"answer": put(whole), "usage": answer.usage, "stop": answer.stop_reason}
        return told

    def _http(self, asked: Data, request: Data, answered: Data) -> dict[str, Any]:
        put = self._table.put
        sent = _part(asked, "sent").get("headers") or request.get("headers")
        told: dict[str, Any] = {
            "what": "http",
            "method": request.get("method"),
            "url": put(request.get("url")),
            "sent": put(_pairs(sent)),
            "body": request_body(request, sent, self._table),
        }
        response = answered.get("response")
        if isinstance(response, dict):
            headers = response.get("headers")
            told["status"] = response.get("status")
            told["reason"] = put(response.get("reason"))
            told["headers"] = put(_pairs(headers))
            told["answer"] = answer_body(response.get("body"), headers, self._table)
        if answered.get("error") is not None:
            told["error"] = put(answered["error"])
        return told

    def _told(self, divergence: Divergence) -> dict[str, Any]:
        put = self._table.put
        return {
            "code": divergence.code,
            "lane": divergence.lane,
            "seq": divergence.event_seq,
            "detail": put(divergence.detail),
            "paths": [put(msgspec.to_builtins(gap)) for gap in divergence.paths],
            "more": divergence.more_paths,
            "asked": put(msgspec.to_builtins(divergence.observed)),
            "nearest": put(msgspec.to_builtins(divergence.nearest)),
            "hint": put(divergence.hint),
        }


def _seq_of(step: RecordedCall) -> int:
    return step.seq


def _about(manifest: Manifest) -> dict[str, Any]:
    """Return the metadata of a recording."""
    told: dict[str, Any] = {
        "status": manifest.status,
        "createdAt": manifest.created_at,
        "mode": manifest.mode,
        "captureId": manifest.capture_id,
        "events": manifest.event_count,
        "redaction": manifest.redaction.profile if manifest.redaction.enabled else "none",
        "environment": {
            name: manifest.environment[name]
            for name in ("python", "platform", "reenact")
            if name in manifest.environment
        },
    }
    if manifest.parent is not None:
        told["parent"] = {"captureId": manifest.parent.capture_id, "seq": manifest.parent.seq}
    if manifest.error is not None:
        told["error"] = manifest.error
    return told


def _failed(step: RecordedCall, span: Span) -> bool:
    if span.state in ("failed", "open") or step.answered.get("error") is not None:
        return True
    return step.kind == "run_end" and step.answered.get("status") not in ("ok", None)


def _settings(given: Any) -> Any:
    """Return the settings of a model request: temperature, limits …"""
    if not isinstance(given, dict):
        return None
    return {
        name: item for name, item in given.items() if not isinstance(item, (list, dict))
    } or None


def _values(response: Data) -> list[Any]:
    """Return the JSON values of a response, streamed or not."""
    body = readable_body(response.get("body"), response.get("headers"))
    if not isinstance(body, str):
        return [body]
    found = content_of("", body.encode("utf-8", "surrogatepass"))
    return [] if found is None else [part.value for part in found.parts]


def _filled(value: Any) -> Data:
    found = msgspec.to_builtins(value)
    return {name: item for name, item in found.items() if item not in (None, "", [], (), {})}


def _part(data: Data, name: str) -> Data:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _pairs(headers: Any) -> list[list[str]]:
    listed = headers if isinstance(headers, list) else []
    return [[*map(str, pair)] for pair in listed if isinstance(pair, list) and len(pair) == 2]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
