"""The page about a regression."""

from __future__ import annotations

from typing import Any

from reenact.views.page.html import document

__all__ = ["regress_page"]

_TOOLS = """\
<input id="find" type="search" placeholder="search ( / )" aria-label="search">
"""

_BODY = """\
<section id="sum" aria-label="summary"></section>
<nav id="list" aria-label="causes" tabindex="0"></nav>
<main id="detail"></main>
"""


def regress_page(title: str, contents: Any) -> str:
    """The page; ``contents`` is what :mod:`reenact.runs.regression.page` has made of the outcomes."""
    return document("regress", title, contents, tools=_TOOLS, body=_BODY)
