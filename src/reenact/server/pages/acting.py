"""Forms of one button, and buttons that are asked about first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Final

from reenact.server.access import Permission, Place, has_anywhere
from reenact.server.asking import Ask
from reenact.server.pages.connecting import copied
from reenact.server.pages.markup import Child, Html, tag
from reenact.server.pages.shell import csrf
from reenact.server.pages.values import folded

__all__ = [
    "confirmed",
    "denial",
    "form",
    "labelled",
    "may_replay",
    "missing",
    "options",
    "secret_once",
]


_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")


def may_replay(ask: Ask) -> bool:
    """May the one who asks replay something, somewhere?"""
    now = ask.server.now()
    return any(has_anywhere(ask.principal.grants, one, now) for one in _REPLAYS)


def missing(ask: Ask, permissions: Iterable[Permission], place: Place) -> list[Permission]:
    """Return the subset of ``permissions`` that the user lacks there."""
    return [one for one in permissions if not ask.may(one, place).allowed]


def denial(ask: Ask, permissions: Sequence[Permission], place: Place) -> Html:
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
    user = quote(ask.principal.name or ask.principal.id)
    grants = "\n".join(f"reenact user grant {user} {one}{limits}" for one in permissions)
    noun = "the permission " if len(permissions) == 1 else "the permissions "
    it = "it" if len(permissions) == 1 else "them"
    way = f"A tenant admin can grant {it} on the People page or with this command:"
    if ask.principal.type != "user":
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
    ask: Ask,
    action: str,
    *inside: Child,
    button: str,
    class_: str = "fields",
    main: bool = False,
    disabled: bool = False,
) -> Html:
    """A form with the token of the session. ``main`` marks the main action of the page;
    ``disabled`` marks an action that would be refused, which the page explains."""
    return tag(
        "form",
        csrf(ask),
        *inside,
        tag("button", button, class_="main" if main else None, disabled=disabled),
        method="post",
        action=action,
        class_=class_,
    )


def confirmed(ask: Ask, action: str, word: str, warning: str, *inside: Child) -> Html:
    """A button behind a fold that says what it does; ``inside`` goes along."""
    sent = form(ask, action, *inside, button=f"Yes, {word.lower()}")
    return folded(word, tag("p", warning), sent, class_="confirm")


def labelled(
    label: str,
    name: str,
    *,
    kind: str = "text",
    required: bool = False,
    wide: bool = False,
    hint: str = "",
    value: str = "",
) -> Html:
    """A field with its label. ``kind`` is the type of an ``input``; ``wide`` is for sentences;
    ``hint`` says what an empty one means."""
    box = tag(
        "input",
        name=name,
        type=kind,
        required=required,
        placeholder=hint or None,
        value=value or None,
    )
    return tag("label", tag("span", label), box, class_="wide" if wide else None)


def options(label: str, name: str, words: tuple[str, ...], now: str = "") -> Html:
    """A choice of ``words`` with its label; ``now`` is the one that is chosen."""
    shown = (tag("option", word, value=word, selected=word == now) for word in words)
    return tag("label", tag("span", label), tag("select", *shown, name=name))


def secret_once(what: str, text: str, *more: Child) -> Html:
    """Something that is shown now and never again."""
    return tag(
        "div",
        tag("p", tag("strong", what)),
        copied(text),
        *more,
        class_="once",
        role="status",
    )
