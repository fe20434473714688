"""A form whose session has ended: nothing was done, and what was typed is not lost.

The page that says so carries the fields, and whoever signs in there gets them back: the form of a
replay as it was, and any other one to be looked at and sent again. They are never sent by
themselves, and never kept when another site has sent them.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from reenact.server.asking import Ask
from reenact.server.pages.forms import Form, read_form
from reenact.server.pages.markup import Child, Html, fragment, tag
from reenact.server.pages.shell import csrf, page
from reenact.server.pages.values import block, facts, folded
from reenact.server.people.csrf import check_site
from reenact.server.ports import Server
from reenact.server.problems import Problem

__all__ = ["MOST", "Kept", "carried", "carry", "form_again", "keep", "once_more", "shown"]

MOST: Final = 1 << 20
"""Bytes of a form that is kept. Anybody can send one."""
_FIELDS: Final = 2_000
_SHOWN: Final = 100
_LONG: Final = 80
_ACTION: Final = re.compile(r"/(?![/\\])[A-Za-z0-9/%._~:@!$&'()*+,;=-]{1,1000}")
"""A place of this server, without a query."""
_REPLAY: Final = re.compile(r"(/exchanges/[^/]+/replay)(?:/preview)?")
_SECRET: Final = "csrf"


class Kept(msgspec.Struct, frozen=True):
    """A form that was sent: where to, and what."""

    action: str
    fields: tuple[tuple[str, str], ...]


async def keep(server: Server, request: Request) -> Kept | None:
    """What was sent; None when it is another site's, too large, or no form."""
    action = request.scope.get("raw_path", b"").decode("ascii", "replace")
    if not _ACTION.fullmatch(action):
        return None
    try:
        check_site(request)
        form = await read_form(Ask(request, server, None), MOST)
    except Problem:
        return None
    return Kept(action, tuple(pair for pair in form.pairs if pair[0] != _SECRET))


def carry(kept: Kept) -> Html:
    """Fields for a form that is sent on the way."""
    return fragment(
        tag("input", type="hidden", name="kept-action", value=kept.action),
        tag("input", type="hidden", name="kept-fields", value=urlencode(kept.fields)),
    )


def carried(form: Form) -> Kept | None:
    """What :func:`carry` has put into ``form``; None where it has not."""
    action, text = form.one("kept-action"), form.one("kept-fields")
    if not _ACTION.fullmatch(action):
        return None
    try:
        fields = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except ValueError:
        return None
    return Kept(action, tuple(pair for pair in fields if pair[0] != _SECRET))


def shown(kept: Kept) -> Html:
    """What was typed, for people."""
    rows: list[tuple[str, Child]] = [
        (name, _text(said)) for name, said in kept.fields if said and name != "once"
    ]
    return folded("What you sent", facts(rows[:_SHOWN]))


def _text(said: str) -> Html:
    """As it was typed."""
    return block(said) if "\n" in said or len(said) > _LONG else tag("code", said)


def once_more(ask: Ask, kept: Kept) -> Response:
    """To somebody who is known again: on with it."""
    replay = _REPLAY.fullmatch(kept.action)
    words = "You are signed in, and nothing was sent yet."
    return page(
        ask,
        "Where you were",
        tag("p", words, role="status"),
        form_again(ask, kept, "Back to the form" if replay else "Send it now"),
        shown(kept),
    )


def form_again(ask: Ask, kept: Kept, button: str) -> Html:
    """The same form with the token of this session. That of a replay is only looked at."""
    replay = _REPLAY.fullmatch(kept.action)
    return tag(
        "form",
        csrf(ask),
        *(tag("input", type="hidden", name=name, value=said) for name, said in kept.fields),
        tag("button", button, class_="main"),
        method="post",
        action=f"{replay[1]}/preview" if replay else kept.action,
        data_goes_on="yes" if replay else None,
    )
