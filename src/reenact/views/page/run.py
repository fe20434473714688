"""The page about one run."""

from __future__ import annotations

from typing import Any

from reenact.views.page.html import document

__all__ = ["run_page"]

_TOOLS = """\
<input id="find" type="search" placeholder="search ( / )" aria-label="search">
<button id="closer" title="zoom in ( + )">+</button>
<button id="wider" title="zoom out ( - )">&minus;</button>
"""

_BODY = """\
<section id="time" aria-label="timeline"></section>
<nav id="list" aria-label="steps"></nav>
<main id="detail"></main>
"""


def run_page(title: str, contents: Any) -> str:
    """The page, about what ``contents`` has made of a recording."""
    return document("run", title, contents, tools=_TOOLS, body=_BODY)
