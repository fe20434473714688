"""The page about one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reenact.views.page.html import document, policy

__all__ = ["left_out", "run_page", "run_policy"]

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
    """The page, about what ``contents`` has made of a recording. ``back``, ``note`` and ``links``: see
    :func:`document`."""
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
    """A sentence about the steps that the page does not show; empty when it shows all."""
    left, shown = contents["left"], len(contents["steps"])
    if not left["before"] and not left["after"]:
        return ""
    whole = left["before"] + shown + left["after"]
    return (
        f"{shown:,} of {whole:,} steps; {left['before']:,} before and {left['after']:,} after them"
    )


def run_policy() -> str:
    """What the page allows, for whoever sends it over HTTP."""
    return policy("run", _PARTS)
