"""OpenAPI 3.1 description, generated from the route table and the types of its handlers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import HTMLResponse, Response

from reenact._version import __version__
from reenact.server.context import RequestContext
from reenact.server.endpoint import ApiDescription, Endpoint, Handler
from reenact.server.openapi.page import POLICY, to_page
from reenact.server.problems import STATUS, ProblemBody

__all__ = [
    "VERSION",
    "describe",
    "described",
    "in_api",
    "problem_codes",
]

VERSION: Final = "3.1.0"
_REFS: Final = "#/components/schemas/{name}"
_PART: Final = re.compile(r"\{([a-z_]+)\}")
_ALSO: Final = frozenset({"/healthz", "/readyz", "/metrics", "/v1/traces"})
_NUMBER: Final = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
_YES_OR_NO: Final = {"type": "string", "enum": ["true", "false"]}
_QUERY: Final[dict[str, dict[str, Any]]] = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
    "since": _NUMBER,
    "until": _NUMBER,
    "epoch": _NUMBER,
    "from": _NUMBER,
    "to": _NUMBER,
    "replayable": _YES_OR_NO,
    "format": {"type": "string", "enum": ["tar", "csv", "jsonl"], "default": "tar"},
}
"""Query parameters that are not texts."""
_JSON: Final = "application/json"


def in_api(endpoint: Endpoint) -> bool:
    """Return whether a route belongs to the API; all others are pages."""
    return endpoint.path.startswith("/api/v1/") or endpoint.path in _ALSO


def describe(endpoints: Iterable[Endpoint], deployment: str) -> dict[str, Any]:
    """The description of all routes for programs, in their order."""
    told = [(one, one.says) for one in endpoints if in_api(one) and one.says is not None]
    types = list(dict.fromkeys(_types(says for _, says in told)))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFS)
    by_type = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint, says in told:
        operation = _operation(endpoint, says, by_type)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": VERSION,
        "info": {"title": f"Reenact at {deployment}", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "rnk_user_… or rnk_agent_…",
                },
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-reenact"},
            },
        },
    }


def _types(told: Iterable[ApiDescription]) -> Iterator[Any]:
    yield ProblemBody
    for says in told:
        for one in (says.takes, says.answers, says.lists):
            if one is not None and not isinstance(one, tuple):
                yield one


def _operation(endpoint: Endpoint, says: ApiDescription, by_type: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": _name(endpoint),
        "summary": says.summary,
        "tags": [_tag(endpoint.path)],
        "parameters": [*_path(endpoint.path), *_fields(says)],
        "responses": _responses(endpoint, says, by_type),
        "security": [] if endpoint.needs == "open" else [{"key": []}, {"session": []}],
    }
    if says.takes is not None:
        operation["requestBody"] = {"required": True, "content": _taken(says.takes, by_type)}
    if permissions := _permissions(endpoint):
        operation["x-permissions"] = permissions
    return operation


def _name(endpoint: Endpoint) -> str:
    words = re.findall(r"[a-z0-9]+", endpoint.path.removeprefix("/api/v1"))
    return "_".join([endpoint.method.lower(), *words])


def _tag(path: str) -> str:
    return path.removeprefix("/api").removeprefix("/v1").strip("/").split("/")[0]


def _permissions(endpoint: Endpoint) -> list[str]:
    if endpoint.needs in ("open", "known"):
        return []
    return list(endpoint.needs) if isinstance(endpoint.needs, tuple) else [endpoint.needs]


def _path(path: str) -> Iterator[dict[str, Any]]:
    for name in _PART.findall(path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "schema": schema}


def _fields(says: ApiDescription) -> Iterator[dict[str, Any]]:
    words = {name: {"type": "string", "enum": list(those)} for name, those in says.words.items()}
    for name in says.query:
        schema = words.get(name) or _QUERY.get(name, {"type": "string"})
        yield {"name": name, "in": "query", "schema": schema}


def _taken(takes: Any, by_type: dict[Any, Any]) -> dict[str, Any]:
    if isinstance(takes, tuple):
        return {media: {} for media in takes}
    return {_JSON: {"schema": by_type[takes]}}


def _responses(endpoint: Endpoint, says: ApiDescription, by_type: dict[Any, Any]) -> dict[str, Any]:
    good = {str(status): _good(says, status, by_type) for status in says.status}
    codes: dict[int, list[str]] = {}
    for code in problem_codes(endpoint, says):
        codes.setdefault(STATUS[code], []).append(code)
    problem = {_JSON: {"schema": by_type[ProblemBody]}}
    bad = {
        str(status): {"description": ", ".join(those), "content": problem}
        for status, those in sorted(codes.items())
    }
    return {**good, **bad}


def _good(says: ApiDescription, status: int, by_type: dict[Any, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": says.summary}
    if says.answers is not None:
        answer["content"] = {_JSON: {"schema": by_type[says.answers]}}
    elif says.lists is not None:
        answer["content"] = {_JSON: {"schema": _list(by_type[says.lists])}}
    elif says.media and status != 204:
        answer["content"] = {media: {} for media in says.media}
    return answer


def _list(item: Any) -> dict[str, Any]:
    required: Sequence[str] = ("items", "next")
    return {
        "type": "object",
        "required": list(required),
        "properties": {
            "items": {"type": "array", "items": item},
            "next": {"type": ["string", "null"]},
        },
    }


def problem_codes(endpoint: Endpoint, says: ApiDescription) -> tuple[str, ...]:
    """Their codes, each once."""
    return tuple(dict.fromkeys(_codes(endpoint, says)))


def _codes(endpoint: Endpoint, says: ApiDescription) -> Iterator[str]:
    yield "malformed"
    if endpoint.needs != "open":
        yield from ("unauthenticated", "session_expired", "csrf_failed", "permission_denied")
    if endpoint.needs == "agent:connect":
        yield "key_bound_elsewhere"
    if isinstance(endpoint.needs, tuple):
        yield from ("tier_required", "production_permission_required", "live_permission_required")
    if "{agent_id}" in endpoint.path:
        yield "agent_unknown"
    if "{" in endpoint.path:
        yield "not_found"
    if says.takes is not None:
        yield from ("too_slow", "too_large", "unsupported", "invalid")
    if says.query:
        yield "invalid"
    if endpoint.needs != "open" or endpoint.method != "GET":
        yield "storage_full"  # who was denied, or has read, is in the audit log as well
    yield from says.codes


def described(endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """The routes that describe ``endpoints``."""
    return (
        Endpoint("GET", "/api/openapi.json", "open", _answering(endpoints, _as_json)),
        Endpoint("GET", "/api/docs", "open", _answering(endpoints, _as_page)),
    )


def _answering(
    endpoints: Sequence[Endpoint], answer: Callable[[dict[str, object]], Response]
) -> Handler:
    async def handle(context: RequestContext) -> Response:
        return answer(describe(endpoints, context.server.deployment))

    return handle


def _as_json(description: dict[str, object]) -> Response:
    return Response(msgspec.json.encode(description), media_type="application/json")


def _as_page(description: dict[str, object]) -> Response:
    return HTMLResponse(to_page(description), headers={"Content-Security-Policy": POLICY})
