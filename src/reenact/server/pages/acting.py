"""Forms of one button, and buttons that are asked about first."""

from __future__ import annotations

from typing import Final

from reenact.server.access import Permission, has_anywhere
from reenact.server.asking import Ask
from reenact.server.pages.connecting import copied
from reenact.server.pages.markup import Child, Html, tag
from reenact.server.pages.shell import csrf
from reenact.server.pages.values import folded

__all__ = ["confirmed", "form", "labelled", "may_replay", "options", "secret_once"]


_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")


def may_replay(ask: Ask) -> bool:
    """May the one who asks replay something, somewhere?"""
    now = ask.server.now()
    return any(has_anywhere(ask.principal.grants, one, now) for one in _REPLAYS)


def form(
    ask: Ask,
    action: str,
    *inside: Child,
    button: str,
    class_: str = "fields",
    main: bool = False,
) -> Html:
    """What is sent with the token of the session. ``main``: what one came to the page for."""
    return tag(
        "form",
        csrf(ask),
        *inside,
        tag("button", button, class_="main" if main else None),
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
