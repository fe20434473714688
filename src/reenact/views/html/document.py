"""HTML document in one file: markup, style, script, data and a strict content policy."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

__all__ = [
    "document",
    "policy",
    "regress_page",
]

_SAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
{way}<h1>{title}</h1><span class="facts" id="facts"></span>{note}<span class="space"></span>
{tools}<button id="theme" title="light or dark ( t )">&#9680;</button>
</header>
<noscript>What was recorded is drawn by the script of this page, and scripts are switched off here.
On the command line: reenact show, reenact diff.</noscript>
{body}<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def document(
    name: str,
    title: str,
    data: Any,
    *,
    tools: str,
    body: str,
    parts: tuple[str, ...] = (),
    back: tuple[str, str] | None = None,
    note: str = "",
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """Return one HTML document with the styles and scripts ``base`` and ``name`` of this folder.

    The ``parts`` (``name-part.js``) are inserted between the two scripts, in this order.

    ``tools`` (in the heading) and ``body`` are Reenact's own markup. ``data`` is recorded content:
    it is embedded as text, and a browser never interprets it as anything else. ``back`` is the
    address and label of the previous page, if the document is one of several pages. ``note`` is a
    sentence about the page, and ``links`` lead to the adjacent pages.
    """
    style, script = _style(name), _script(name, parts)
    encoded = json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(_SAFE)
    return _PAGE.format(
        policy=policy(name, parts),
        title=escape(title),
        way="" if back is None else _link(*back),
        note="".join((_note(note), *(_link(*one) for one in links))),
        style=style,
        tools=tools,
        body=body,
        data=encoded.encode("utf-8", "replace").decode(),
        script=script,
    )


def _link(address: str, text: str) -> str:
    return f'<a href="{escape(address)}">{escape(text)}</a>'


def _note(text: str) -> str:
    return f'<span class="facts" id="left">{escape(text)}</span>' if text else ""


def policy(name: str, parts: tuple[str, ...] = ()) -> str:
    """Return the content security policy: only the style, script and images of the document."""
    rules = (
        "default-src 'none'",
        "img-src data:",
        f"style-src '{_hash(_style(name))}'",
        f"script-src '{_hash(_script(name, parts))}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


def _style(name: str) -> str:
    return _joined("base.css", f"{name}.css")


def _script(name: str, parts: tuple[str, ...]) -> str:
    return _joined("base.js", *(f"{name}-{part}.js" for part in parts), f"{name}.js")


def _joined(*names: str) -> str:
    folder = files("reenact.views.html") / "static"
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


_TOOLS = """\
<input id="find" type="search" placeholder="search ( / )" aria-label="search">
"""

_BODY = """\
<section id="sum" aria-label="summary"></section>
<nav id="list" aria-label="causes" tabindex="0"></nav>
<main id="detail"></main>
"""


def regress_page(title: str, contents: Any) -> str:
    """Return the page for the result of :mod:`reenact.runs.regression.report`."""
    return document("regress", title, contents, tools=_TOOLS, body=_BODY)
