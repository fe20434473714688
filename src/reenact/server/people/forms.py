"""Pages with one form each, for browsers: no scripts, and nothing from elsewhere."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html import escape
from typing import Final
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import HTMLResponse

from reenact.server.asking import Ask
from reenact.server.problems import Problem

__all__ = ["Field", "page", "read_form"]

_STYLE: Final = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:12vh auto;padding:0 1rem}"
    "label{display:block;margin:1rem 0 .2rem}"
    "input,button{font:inherit;width:100%;padding:.5rem;box-sizing:border-box}"
    "button{margin-top:1.5rem}"
    "[role=alert]{border-left:.25rem solid #c00;padding:.2rem .8rem}"
)
_HASH: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
_FORM: Final = "application/x-www-form-urlencoded"
_MOST: Final = 16 << 10


class Field(msgspec.Struct, frozen=True):
    """One field of a form. One without a ``label`` is hidden, and has a value."""

    name: str
    label: str = ""
    type: str = "hidden"
    complete: str = "off"
    value: str = ""

    def to_html(self) -> str:
        name, value = escape(self.name), escape(self.value)
        if not self.label:
            return f'<input type="hidden" name="{name}" value="{value}">'
        return (
            f'<label for="{name}">{escape(self.label)}</label>'
            f'<input id="{name}" name="{name}" type="{escape(self.type)}" required '
            f'autocomplete="{escape(self.complete)}" value="{value}">'
        )


def page(
    title: str,
    words: str,
    *,
    action: str = "",
    fields: tuple[Field, ...] = (),
    button: str = "",
    problem: Problem | None = None,
) -> HTMLResponse:
    """A page with at most one form. Everything that is put into it is text."""
    told = f'<p role="alert">{escape(_told(problem))}</p>' if problem is not None else ""
    form = ""
    if action:
        inside = "".join(field.to_html() for field in fields)
        form = (
            f'<form method="post" action="{escape(action)}">{inside}'
            f"<button>{escape(button)}</button></form>"
        )
    html = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)} – Reenact</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{escape(title)}</h1><p>{escape(words)}</p>{told}{form}</main></body></html>"
    )
    status = 200 if problem is None else problem.status
    headers = {"Content-Security-Policy": _POLICY}
    if problem is not None and problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    return HTMLResponse(html, status, headers)


def _told(problem: Problem) -> str:
    return f"{problem.message}. {problem.hint}".strip()


async def read_form(ask: Ask) -> dict[str, str]:
    """The fields that a browser sent. Raises :class:`Problem`."""
    content = ask.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != _FORM:
        raise Problem("unsupported", f"the body has to be {_FORM}")
    data = await ask.body(_MOST)
    try:
        return dict(parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        raise Problem("malformed", "this is not a form") from None
