"""Times, durations, sizes and states in words (pure)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from reenact.server.pages.markup import Html, fragment, tag

__all__ = [
    "badge",
    "clock",
    "count",
    "duration",
    "environment",
    "judged",
    "revision",
    "size",
    "stamp",
    "whole",
]

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
    """A state in its colour; the word says it, too."""
    kind = tone or _TONES.get(word, "plain")
    return tag("span", word, class_=f"badge {kind}", title=title or None)


def judged(verdict: str, cause: str) -> Html:
    """What came of a replay, and where it differs first."""
    return fragment(
        badge(verdict) if verdict else None,
        tag("span", f" {cause}", class_="dim cause") if cause else None,
    )


def environment(name: str, kind: str) -> Html:
    """An environment in its colour. ``kind`` is ``production``, ``non-production``, or empty where
    it is not known."""
    tone = {"production": "production", "non-production": "safe"}.get(kind, "plain")
    return tag("span", name, class_=f"badge {tone}", title=kind or None)


def revision(name: str) -> Html:
    """Of a route: enough of it to tell it from others."""
    return tag("code", name.removeprefix("sha256:")[:12], title=name)


def whole(name: str) -> Html:
    """A short name in a table, which is not broken as long as there is room for it."""
    return tag("span", name, class_="whole")


def clock(at: int) -> str:
    """Milliseconds since the epoch as text; empty for 0."""
    if not 0 < at < _LATEST:
        return ""
    return datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def stamp(at: int, *, none: str = "–") -> Html:
    """A time, in UTC."""
    text = clock(at)
    if not text:
        return tag("span", none, class_="dim")
    machine = f"{text.replace(' ', 'T')}.{at % 1000:03d}Z"
    return tag("time", text, datetime=machine, title=f"{text}.{at % 1000:03d} UTC")


def duration(milliseconds: float | None) -> str:
    """Milliseconds for people; a dash for None."""
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
    """A number of bytes for people, in units of 1024."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            return f"{number / factor:.1f} {unit}"
    return count(number, "byte")


def count(number: int, noun: str) -> str:
    """``3 calls``, ``1 call``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
