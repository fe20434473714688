"""The page itself: markup, style and script in one file, and a policy that allows nothing else."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

__all__ = ["page"]

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
<h1>{title}</h1><span class="facts" id="facts"></span><span class="space"></span>
<input id="find" type="search" placeholder="search ( / )" aria-label="search">
<button id="closer" title="zoom in ( + )">+</button>
<button id="wider" title="zoom out ( - )">&minus;</button>
<button id="theme" title="light or dark ( t )">&#9680;</button>
</header>
<section id="time" aria-label="timeline"></section>
<nav id="list" aria-label="steps"></nav>
<main id="detail"></main>
<script type="application/json" id="run">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(title: str, data: Any) -> str:
    """One HTML document. ``data`` is text inside of it, and becomes nothing else in a browser."""
    style, script = _asset("page.css"), _asset("page.js")
    rules = (
        "default-src 'none'",
        "img-src data:",
        f"style-src '{_hash(style)}'",
        f"script-src '{_hash(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    encoded = json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(_SAFE)
    return _PAGE.format(
        policy="; ".join(rules),
        title=escape(title),
        style=style,
        data=encoded.encode("utf-8", "replace").decode(),
        script=script,
    )


def _asset(name: str) -> str:
    return (files("reenact.views.page") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
