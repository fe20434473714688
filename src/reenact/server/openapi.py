"""OpenAPI 3.1 description, generated from the route table and the types of its handlers.

It is also shown as a page, without scripts and external content.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from typing import Any, Final

import msgspec
from starlette.responses import HTMLResponse, Response

from reenact._version import __version__
from reenact.server.context import RequestContext
from reenact.server.endpoint import ApiDescription, Endpoint, Handler
from reenact.server.problems import STATUS, ProblemBody

__all__ = [
    "POLICY",
    "VERSION",
    "describe",
    "described",
    "in_api",
    "problem_codes",
    "to_page",
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


_STYLE: Final = (
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1d232b;--dim:#58626e;--line:#d9dee4;--soft:#f4f6f8;--link:#1a5fa0}"
    "@media(prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#dfe5ec;--dim:#9aa6b2;--line:#2f3842;--soft:#1b2128;--link:#7fbcf2}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:64rem;margin:0 auto;padding:1.25rem}"
    "a{color:var(--link)}:focus-visible{outline:2px solid var(--link);outline-offset:2px}"
    "h1{font-size:1.35rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}"
    "code,pre{font:12.5px/1.55 ui-monospace,monospace;overflow-wrap:anywhere}"
    "pre{white-space:pre-wrap;padding:.5rem .75rem;background:var(--soft);border-radius:6px}"
    "details{border-bottom:1px solid var(--line);padding:.25rem 0}details[open]{padding-bottom:.75rem}"
    "summary{cursor:pointer;overflow-wrap:anywhere}summary span{color:var(--dim)}"
    "table{border-collapse:collapse;margin:.5rem 0}"
    "caption{text-align:left;font-weight:600;font-size:.8rem;color:var(--dim)}"
    "td{padding:.125rem 1rem .125rem 0;vertical-align:top;overflow-wrap:anywhere}"
    "b{display:inline-block;min-width:4.2rem;font-size:.8rem}"
    "nav{display:flex;flex-wrap:wrap;gap:.25rem .75rem}"
)
_HASH: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'; base-uri 'none'"
)
_REFERENCES: Final = "#/components/schemas/"


def to_page(description: dict[str, Any]) -> str:
    """All of it; what is long is folded."""
    title = escape(description["info"]["title"])
    by_tag: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append(
                _operation_section(method, path, operation)
            )
    tags = "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in by_tag)
    body = "".join(
        f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(those)}'
        for tag, those in by_tag.items()
    )
    schemas = "".join(_schemas(description["components"]["schemas"]))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main><h1>{title}</h1>"
        f"<p>Version {escape(description['info']['version'])}. For programs: "
        '<a href="/api/openapi.json">OpenAPI</a>. For people: <a href="/">the pages</a>.</p>'
        f'<nav aria-label="Parts">{tags}<a href="#types">types</a></nav>'
        f'{body}<h2 id="types">types</h2>{schemas}</main></body></html>'
    )


def _operation_section(method: str, path: str, operation: dict[str, Any]) -> str:
    needs = operation.get("x-permissions")
    who = "open" if not operation["security"] else "any valid credential"
    needed = " or ".join(map(_code, needs)) if needs else escape(who)
    return (
        f"<details><summary><b>{escape(method.upper())}</b> {_code(path)} "
        f"<span>{escape(operation['summary'])}</span></summary><p>Needs: {needed}.</p>"
        f"{_table('Takes', _inputs(operation))}{_table('Answers', _answers(operation))}</details>"
    )


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _table(heading: str, rows: Iterator[tuple[str, str]]) -> str:
    lines = "".join(f"<tr><td>{one}</td><td>{other}</td></tr>" for one, other in rows)
    return f"<table><caption>{heading}</caption><tbody>{lines}</tbody></table>" if lines else ""


def _inputs(operation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for one in operation["parameters"]:
        yield _code(one["name"]), f"{escape(one['in'])}, {_words(one['schema'])}"
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield _code(media), _words(content.get("schema", {}))


def _answers(operation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for status, answer in operation["responses"].items():
        shapes = [
            f"{_code(media)} {_words(content.get('schema', {}))}"
            for media, content in answer.get("content", {}).items()
        ]
        good = status.startswith("2")
        yield _code(status), ", ".join(shapes) if good else escape(answer["description"])


def _words(schema: dict[str, Any]) -> str:
    if ref := schema.get("$ref"):
        name = escape(ref.removeprefix(_REFERENCES))
        return f'<a href="#type-{name}">{name}</a>'
    items = schema.get("properties", {}).get("items", {}).get("items")
    if items:
        return f"list of {_words(items)}"
    if "enum" in schema:
        return escape(" or ".join(map(str, schema["enum"])))
    return escape(str(schema.get("type", "")))


def _schemas(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        text = escape(json.dumps(schema, indent=2))
        shown = escape(name)
        yield f'<details id="type-{shown}"><summary>{_code(name)}</summary><pre>{text}</pre></details>'
