"""Forms: parsing, form fields, confirmation buttons, and protection against double submission.

The address of a replay form contains its key, so going back in the browser leads to the same form. A second
submission redirects to the replay that the first one created.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from reenact.server.auth.authentication import check_site, check_token
from reenact.server.auth.permissions import Permission, ResourceScope
from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.web.components.formatting import copyable, folded
from reenact.server.web.components.html import Child, Html, link, tag, url
from reenact.server.web.components.layout import csrf

__all__ = [
    "Form",
    "already_sent_notice",
    "can_replay",
    "check_form",
    "confirm_button",
    "denial",
    "form",
    "input_field",
    "is_key",
    "missing_permissions",
    "new_key",
    "read_form",
    "secret_once",
    "select_field",
    "to_request",
]

T = TypeVar("T")
_FORM: Final = "application/x-www-form-urlencoded"
_FIELDS: Final = 2_000
_KNOWN: Final = "reenact.form"


class Form:
    """Fields in their order, repeated ones too."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def one(self, name: str, default: str = "") -> str:
        """Return the last value of this field."""
        return next((value for key, value in reversed(self._fields) if key == name), default)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All fields as pairs."""
        return tuple(self._fields)

    def many(self, name: str) -> list[str]:
        return [value for key, value in self._fields if key == name]


async def read_form(context: RequestContext, most: int | None = None) -> Form:
    """Return the submitted form; the result is cached in the request.

    ``most`` is the limit in bytes. Raises :class:`Problem`.
    """
    known = context.request.scope.get(_KNOWN)
    if isinstance(known, Form):
        return known
    content = context.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != _FORM:
        raise Problem("unsupported", f"the body has to be {_FORM}")
    data = await context.body(most)
    try:
        fields = parse_qsl(
            data.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
        )
    except ValueError:
        raise Problem("malformed", "this is not a form") from None
    context.request.scope[_KNOWN] = form = Form(fields)
    return form


async def check_form(context: RequestContext) -> None:
    """Check that a request with a session cookie is a form of this site with the token of the
    session.

    Raises :class:`Problem` otherwise.
    """
    check_site(context.request)
    form = await read_form(context, 4 * context.server.limits.payload)
    if context.principal.auth == "session":
        check_token(form.one("csrf"), context.principal.csrf)


def to_request(fields: dict[str, Any], kind: type[T]) -> T:
    """Convert the values of a form to a request of the API. Raises :class:`Problem`."""
    try:
        return msgspec.json.decode(msgspec.json.encode(fields), type=kind)
    except msgspec.ValidationError as error:
        raise Problem("invalid", f"this does not fit: {error}") from None


_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")


def can_replay(context: RequestContext) -> bool:
    """Return whether the user is allowed to replay anything."""
    return any(context.has_anywhere(one) for one in _REPLAYS)


def missing_permissions(
    context: RequestContext, permissions: Iterable[Permission], place: ResourceScope
) -> list[Permission]:
    """Return the subset of ``permissions`` that the user lacks there."""
    return [one for one in permissions if not context.may(one, place).allowed]


def denial(
    context: RequestContext, permissions: Sequence[Permission], place: ResourceScope
) -> Html:
    """Explain which permissions the user lacks, and who can grant them."""
    names: list[Child] = []
    for one in permissions:
        names += (" and " if names else "", tag("code", one))
    where = "".join(
        f"{word} {name}"
        for word, name in ((" in", place.environment), (" for the app", place.app))
        if name
    )
    limits = "".join(
        f" --{option} {quote(name)}"
        for option, name in (("environment", place.environment), ("app", place.app))
        if name
    )
    user = quote(context.principal.name or context.principal.id)
    grants = "\n".join(f"reenact user grant {user} {one}{limits}" for one in permissions)
    noun = "the permission " if len(permissions) == 1 else "the permissions "
    it = "it" if len(permissions) == 1 else "them"
    way = f"A tenant admin can grant {it} on the People page or with this command:"
    if context.principal.type != "user":
        way, grants = f"A tenant admin can make a key that has {it}.", ""
    return tag(
        "div",
        tag("p", tag("strong", "You do not have ", noun, *names, where, ".")),
        tag("p", way),
        tag("pre", grants, tabindex=0) if grants else None,
        role="alert",
        class_="alert denied",
    )


def form(
    context: RequestContext,
    action: str,
    *inside: Child,
    button: str,
    class_: str = "fields",
    main: bool = False,
    disabled: bool = False,
) -> Html:
    """Return a form with the token of the session.

    ``main`` marks the main action of the page. ``disabled`` marks an action that would be refused,
    which the page explains.
    """
    return tag(
        "form",
        csrf(context),
        *inside,
        tag("button", button, class_="main" if main else None, disabled=disabled),
        method="post",
        action=action,
        class_=class_,
    )


def confirm_button(
    context: RequestContext, action: str, word: str, warning: str, *inside: Child
) -> Html:
    """Return a button that opens a confirmation. ``inside`` is part of its form."""
    sent = form(context, action, *inside, button=f"Yes, {word.lower()}")
    return folded(word, tag("p", warning), sent, class_="confirm")


def input_field(
    label: str,
    name: str,
    *,
    kind: str = "text",
    required: bool = False,
    wide: bool = False,
    hint: str = "",
    value: str = "",
) -> Html:
    """Return an input with its label. ``wide`` is for sentences; ``hint`` is the placeholder."""
    box = tag(
        "input",
        name=name,
        type=kind,
        required=required,
        placeholder=hint or None,
        value=value or None,
    )
    return tag("label", tag("span", label), box, class_="wide" if wide else None)


def select_field(
    label: str, name: str, options: Iterable[str | tuple[str, str]], now: str = ""
) -> Html:
    """Return a select field with its label. ``options`` are values, or values with their labels;
    ``now`` is the selected value."""
    pairs = ((one, one) if isinstance(one, str) else one for one in options)
    shown = (tag("option", word, value=value, selected=value == now) for value, word in pairs)
    return tag("label", tag("span", label), tag("select", *shown, name=name))


def secret_once(what: str, text: str, *more: Child) -> Html:
    """Return a box with a secret that is shown only once."""
    return tag(
        "div",
        tag("p", tag("strong", what)),
        copyable(text),
        *more,
        class_="once",
        role="status",
    )


_KEY: Final = re.compile(r"[0-9a-f]{32}")


def is_key(text: str) -> bool:
    """Return whether ``text`` has the form of :func:`new_key`."""
    return _KEY.fullmatch(text) is not None


def new_key(context: RequestContext) -> str:
    """Return a new key of a form, which is used as its ``Idempotency-Key``."""
    return context.server.secret(16).hex()


def already_sent_notice(exchange_id: str, words: str, replay_id: str = "") -> Html:
    """Return a notice that the form was already sent, with links to continue.

    ``replay_id`` is empty if the replay is shown already.
    """
    there = link(url("/replays/{}", replay_id), "Look at the replay", class_="button")
    new = link(url("/exchanges/{}/replay", exchange_id), "Make a new replay", class_="button")
    return tag(
        "div",
        tag("p", tag("strong", "This form was already sent."), " ", words),
        tag("p", there if replay_id else None, " ", new, class_="actions"),
        class_="once sent",
        role="status",
    )
