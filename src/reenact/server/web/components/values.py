"""Recorded values as HTML: JSON, payloads and errors."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Sequence
from typing import Any, Final

from reenact.exchange.model import Body, ErrorFacts, Payload
from reenact.server.web.components.formatting import count, size
from reenact.server.web.components.html import Child, Html, fragment, tag

__all__ = [
    "LONGEST",
    "block",
    "bytes_preview",
    "copyable",
    "error_text",
    "facts",
    "folded",
    "pairs",
    "payload",
    "pretty",
    "value",
]

_LONG: Final = 200
LONGEST: Final = 200_000
"""Characters of a text on a page."""
_HEX: Final = 512
_MANY: Final = 40
"""Pairs that would hide what stands below them."""


def pretty(item: Any) -> str:
    """Return indented JSON."""
    return json.dumps(item, ensure_ascii=False, indent=2, default=str)


def value(item: Any) -> Html:
    """Show a value: inline if it is short, otherwise as a block."""
    short = json.dumps(item, ensure_ascii=False, default=str)
    if len(short) <= _LONG:
        return tag("code", short, class_="value")
    return block(item if isinstance(item, str) else pretty(item))


def block(text: str) -> Html:
    """Show a text unchanged, up to the maximum size of a page."""
    if len(text) <= LONGEST:
        return tag("pre", text, tabindex=0)
    said = f"The first {LONGEST:,} of {count(len(text), 'character')}."
    return fragment(tag("p", said, class_="dim"), tag("pre", text[:LONGEST], tabindex=0))


def copyable(text: str) -> Html:
    """Return a preformatted text; ``page.js`` adds a button that copies it."""
    return tag("pre", text, tabindex=0, data_copy=True)


def folded(summary: Child, *inside: Child, open_: bool = False, class_: str = "fold") -> Html:
    """Return a ``details`` element that is initially closed unless ``open_`` is set."""
    return tag("details", tag("summary", summary), *inside, open=open_, class_=class_)


def facts(rows: Iterable[tuple[str, Child]]) -> Html:
    """Show names and values. Rows with an empty value are omitted."""
    shown = [(name, said) for name, said in rows if said not in (None, "")]
    return tag(
        "dl",
        *(tag("div", tag("dt", name), tag("dd", said)) for name, said in shown),
        class_="facts",
    )


def error_text(error: ErrorFacts | None) -> Html | None:
    """Show an exception."""
    if error is None:
        return None
    return tag("p", tag("strong", error.type), " ", error.message, class_="wrong")


def payload(found: Payload, redacted: Sequence[str] = ()) -> Html:
    """Show headers, body and properties."""
    removed = f"removed before it was stored: {', '.join(redacted[:20])}" if redacted else ""
    return fragment(
        _section("Headers", pairs([(name, item) for name, item in found.headers])),
        _section(fragment("Body ", tag("span", _kind(found.body))), _body(found.body)),
        _section("Properties", pairs([(k, _plain(v)) for k, v in found.properties.items()])),
        tag("p", removed, class_="dim") if removed else None,
    )


def _section(name: Child, inside: Html | None) -> Html | None:
    return None if inside is None else fragment(tag("h3", name, class_="label"), inside)


def _plain(item: Any) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, default=str)


def pairs(found: list[tuple[str, str]]) -> Html | None:
    """Show names and values, or return None if there are none. A long table is collapsed."""
    if not found:
        return None
    rows = (tag("tr", tag("th", name, scope="row"), tag("td", item)) for name, item in found)
    table = tag("table", tag("tbody", *rows), class_="pairs")
    return table if len(found) <= _MANY else folded(f"All {len(found):,} of them", table)


def _kind(body: Body) -> str:
    return body.content_type or body.type


def _body(body: Body) -> Html:
    if body.clipped is not None:
        return tag("p", f"{size(body.clipped)}, too large to be kept", class_="dim")
    if body.type == "none":
        return tag("p", "none", class_="dim")
    if body.type == "bytes":
        return bytes_preview(body.base64)
    return block(_spread(body.text) if body.type == "json" else body.text)


def _spread(text: str) -> str:
    """Return a JSON text with line breaks.

    A text that has line breaks, or is not JSON, is unchanged.
    """
    if "\n" in text:
        return text
    try:
        return pretty(json.loads(text))
    except (ValueError, RecursionError):
        return text


def bytes_preview(encoded: str) -> Html:
    """Show the number of bytes and the first of them. ``encoded`` is base64."""
    try:
        found = b64decode(encoded)
    except (Base64Error, ValueError):
        return block(encoded)
    return fragment(tag("p", size(len(found)), class_="dim"), block(found[:_HEX].hex(" ")))
