"""The description of the API as a page: HTML made here, no scripts, nothing from elsewhere (pure)."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from typing import Any, Final

__all__ = ["POLICY", "to_page"]

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
_REFS: Final = "#/components/schemas/"


def to_page(description: dict[str, Any]) -> str:
    """All of it; what is long is folded."""
    title = escape(description["info"]["title"])
    by_tag: dict[str, list[str]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
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


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
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
        name = escape(ref.removeprefix(_REFS))
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
