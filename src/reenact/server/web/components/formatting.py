"""Times, sizes and states as text and badges, and recorded values as HTML."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from reenact.exchange.model import Body, ErrorFacts, Payload
from reenact.server.web.components.html import Child, Html, fragment, tag

__all__ = [
    "LONGEST",
    "badge",
    "block",
    "bytes_preview",
    "clock",
    "copyable",
    "count",
    "duration",
    "ending_class",
    "environment",
    "error_text",
    "exchange_status",
    "facts",
    "folded",
    "http_status",
    "judged",
    "pairs",
    "payload",
    "pretty",
    "replay_state",
    "revision",
    "size",
    "stamp",
    "value",
    "verdict_tone",
    "whole",
]

_REFUSED: Final = 400
_FAILED: Final = 500
_LATEST: Final = 253_402_300_799_000
_TONES: Final = {
    "completed": "good",
    "identical": "good",
    "equivalent": "good",
    "fixed": "good",
    "online": "good",
    "active": "good",
    "ok": "good",
    "failed": "bad",
    "regressed": "bad",
    "refused": "bad",
    "denied": "bad",
    "expired": "bad",
    "diverged": "warn",
    "handled": "warn",
    "cancelled": "warn",
    "invited": "warn",
    "requested": "busy",
    "delivered": "busy",
    "running": "busy",
}


def badge(word: str, *, tone: str = "", title: str = "") -> Html:
    """Render a state as a coloured word."""
    kind = tone or _TONES.get(word, "plain")
    return tag("span", word, class_=f"badge {kind}", title=title or None)


def http_status(status: int) -> Html | None:
    """Return an HTTP status in its colour, or None for 0."""
    if not status:
        return None
    if status < _REFUSED:
        return tag("span", str(status), class_="dim number")
    return badge(str(status), tone=_tone_of(status), title=f"HTTP {status}")


def exchange_status(status: str, http: int) -> Html:
    """Render the status of an exchange. A response of 400 or more is never shown in green."""
    tone = "" if status == "failed" or http < _REFUSED else _tone_of(http)
    shown = http_status(http)
    return fragment(badge(status, tone=tone), (" ", shown) if shown is not None else None)


def _tone_of(http: int) -> str:
    return "warn" if http < _FAILED else "bad"


def ending_class(status: str, http: int) -> str:
    """Return the CSS class of an exchange in a diagram, by its outcome."""
    if status == "failed" or http >= _FAILED:
        return "failed"
    return "refused" if http >= _REFUSED else "went"


def verdict_tone(verdict: str, ending: str) -> str:
    """Return the colour of a verdict.

    A failed replay is never shown as a success, even if it is identical to its source.
    """
    tone = _TONES.get(verdict, "plain")
    return "plain" if ending == "failed" and tone == "good" else tone


def replay_state(state: str, verdict: str, ending: str) -> Html:
    """Return the state of a replay. A completed one has the colour of its verdict."""
    completed = state == "completed" and bool(verdict)
    return badge(state, tone=verdict_tone(verdict, ending) if completed else "")


def judged(verdict: str, cause: str, ending: str = "", http: int = 0) -> Html:
    """Return the verdict on a replay, the status of its exchange unless it succeeded, and the first
    difference."""
    ended: Html | None = None
    if http >= _REFUSED:
        ended = http_status(http)
    elif ending == "failed":
        ended = badge("failed")
    return fragment(
        badge(verdict, tone=verdict_tone(verdict, ending)) if verdict else None,
        (" ", ended) if ended is not None else None,
        tag("span", f" {cause}", class_="dim cause") if cause else None,
    )


def environment(name: str, kind: str) -> Html:
    """Return an environment in its colour.

    ``kind`` is ``production``, ``non-production``, or empty if it is unknown.
    """
    tone = {"production": "production", "non-production": "safe"}.get(kind, "plain")
    return tag("span", name, class_=f"badge {tone}", title=kind or None)


def revision(name: str) -> Html:
    """Return the start of a route revision, which is enough to distinguish it from others."""
    return tag("code", name.removeprefix("sha256:")[:12], title=name)


def whole(name: str) -> Html:
    """Return a short name that a table does not wrap unless it has to."""
    return tag("span", name, class_="whole")


def clock(at: int) -> str:
    """Return milliseconds since the epoch as text, or an empty string for 0."""
    if not 0 < at < _LATEST:
        return ""
    return datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def stamp(at: int, *, none: str = "–") -> Html:
    """Return a time in UTC."""
    text = clock(at)
    if not text:
        return tag("span", none, class_="dim")
    machine = f"{text.replace(' ', 'T')}.{at % 1000:03d}Z"
    return tag("time", text, datetime=machine, title=f"{text}.{at % 1000:03d} UTC")


def duration(milliseconds: float | None) -> str:
    """Return milliseconds in a readable form, or a dash for None."""
    if milliseconds is None:
        return "–"
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.2f} s"
    return f"{milliseconds // 60_000:.0f} min {milliseconds % 60_000 / 1_000:.0f} s"


def size(number: int) -> str:
    """Return a number of bytes in a readable form, in units of 1024."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return count(number, "byte")


def count(number: int, noun: str) -> str:
    """Return a number with its noun, such as ``3 calls`` or ``1 call``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
        return tag("p", f"{size(body.clipped)}, too large to be stored", class_="dim")
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
