"""What a page shows of a recording, as JSON.

Conversations say again what was said before; every value that is long or repeats stands once in a
table, and the steps point into it. So a page grows with what is new, as the recording does.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import msgspec

from reenact.engine.divergence import Divergence
from reenact.format import lane as lane_names
from reenact.format.canonical import decode, digest, stored
from reenact.format.event import Data
from reenact.format.manifest import Manifest
from reenact.lenses.meaning import Answered, Asked
from reenact.lenses.reading import read_event
from reenact.lenses.table import messages
from reenact.views.bodies import readable, undo
from reenact.views.steps import Step, Steps

__all__ = ["contents"]

_SHORT = 80
_MOST = 256 * 1024
"""Bytes of a body that a page shows."""


def contents(
    name: str, manifest: Manifest, steps: Steps, divergences: Iterable[Divergence] = ()
) -> dict[str, Any]:
    """Everything that the page knows."""
    return _Writer(divergences).whole(name, manifest, steps)


class _Writer:
    def __init__(self, divergences: Iterable[Divergence]) -> None:
        self._table: list[Any] = []
        self._place: dict[str, int] = {}
        self._divergences: dict[int | None, list[Divergence]] = {}
        for one in divergences:
            self._divergences.setdefault(one.event_seq, []).append(one)

    def whole(self, name: str, manifest: Manifest, steps: Steps) -> dict[str, Any]:
        lanes = sorted(steps.lanes, key=lane_names.order)
        shown = [self._step(step) for lane in lanes for step in steps.lanes[lane]]
        shown.sort(key=lambda step: (step["start"], step["seq"]))
        start = min((step["start"] for step in shown), default=0)
        for step in shown:
            step["start"] -= start
            step["end"] -= start
        return {
            "name": name,
            "captureId": manifest.capture_id,
            "status": manifest.status,
            "createdAt": manifest.created_at,
            "mode": manifest.mode,
            "lanes": lanes,
            "steps": shown,
            "draws": dict(sorted(steps.left_out.items())),
            "table": self._table,
            "elsewhere": [_told(one) for one in self._divergences.get(None, ())],
        }

    def _step(self, step: Step) -> dict[str, Any]:
        told: dict[str, Any] = {
            "seq": step.seq,
            "closed": None if step.closing is None else step.closing.seq,
            "lane": step.lane,
            "kind": step.kind,
            "name": step.name,
            "start": step.began,
            "end": step.ended,
            "detail": self._detail(step),
        }
        found = self._divergences.get(step.seq, [])
        if found:
            told["divergences"] = [_told(one) for one in found]
        step.let_go()
        return told

    def _detail(self, step: Step) -> dict[str, Any]:
        asked, answered = step.asked, step.answered
        if step.opening.type == "llm_request":
            found = self._model_call(asked, answered)
            if found is not None:
                return found
        request, response = asked.get("request"), answered.get("response")
        if isinstance(request, dict) and "url" in request:
            return self._http(asked, request, response)
        if step.opening.type == "tool_call":
            return {
                "what": "tool",
                "given": self._in(asked.get("args")),
                "gave": self._gave(answered),
            }
        return {"what": "data", "data": self._in({**asked, **answered})}

    def _gave(self, answered: Data) -> Any:
        return self._in(answered.get("error") if "error" in answered else answered.get("result"))

    def _model_call(self, asked: Data, answered: Data) -> dict[str, Any] | None:
        question, answer = (
            read_event(asked),
            read_event(answered, lens=_text(asked.get("lens")), undo=undo),
        )
        if not isinstance(question, Asked):
            return None
        told: dict[str, Any] = {
            "what": "model",
            "model": question.model,
            "provider": question.provider,
            "messages": [self._in(_filled(one)) for one in messages(question)],
            "tools": self._in(question.tools),
            "wire": self._http(asked, _part(asked, "request"), answered.get("response")),
            "error": answered.get("error"),
        }
        if isinstance(answer, Answered):
            told["answer"] = self._in(_filled(answer))
            told["usage"] = answer.usage
            told["stop"] = answer.stop_reason
        return told

    def _http(self, asked: Data, request: Data, response: Any) -> dict[str, Any]:
        sent = _part(asked, "sent").get("headers") or request.get("headers")
        told: dict[str, Any] = {
            "what": "http",
            "method": request.get("method"),
            "url": request.get("url"),
            "sent": self._in(sent),
            "body": self._in(_shown(request.get("body"), sent)),
        }
        if isinstance(response, dict):
            headers = response.get("headers")
            told["status"] = response.get("status")
            told["headers"] = self._in(headers)
            told["answer"] = self._in(_shown(response.get("body"), headers))
        return told

    def _in(self, value: Any) -> Any:
        """``value`` itself where it is short; else where it stands in the table."""
        encoded = stored(value)
        if len(encoded) <= _SHORT:
            return {"v": decode(encoded)}
        key = digest(value)
        if key not in self._place:
            self._place[key] = len(self._table)
            self._table.append(decode(encoded))
        return {"t": self._place[key]}


def _told(divergence: Divergence) -> dict[str, Any]:
    return {
        "code": divergence.code,
        "detail": divergence.detail,
        "paths": [msgspec.to_builtins(gap) for gap in divergence.paths],
        "hint": divergence.hint,
    }


def _filled(value: Any) -> Any:
    found = msgspec.to_builtins(value)
    return {name: item for name, item in found.items() if item not in (None, "", [], (), {})}


def _shown(body: Any, headers: Any) -> Any:
    """A body for people: JSON, text, a picture, or the first bytes of something else."""
    body = readable(body, headers)
    if isinstance(body, str) and len(body) > _MOST:
        return {"$cut": len(body), "text": body[:_MOST]}
    if not isinstance(body, bytes):
        return body
    kind = _content_type(headers)
    if kind in ("image/png", "image/jpeg", "image/gif", "image/webp") and len(body) <= _MOST:
        return {"$image": kind, "data": b64encode(body).decode("ascii")}
    return {"$hex": body[:512].hex(" "), "size": len(body)}


def _content_type(headers: Any) -> str:
    for pair in headers if isinstance(headers, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and _text(pair[0]).lower() == "content-type":
            return _text(pair[1]).partition(";")[0].strip().lower()
    return ""


def _part(data: Data, name: str) -> Data:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
