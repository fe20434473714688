"""Forms of one button, and buttons that are asked about first (pure)."""

from __future__ import annotations

from reenact.server.asking import Ask
from reenact.server.pages.markup import Child, Html, tag
from reenact.server.pages.shell import csrf
from reenact.server.pages.values import folded

__all__ = ["confirmed", "form", "labelled", "options", "secret_once"]


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


def confirmed(ask: Ask, action: str, word: str, warning: str) -> Html:
    """A button behind a fold that says what it does."""
    return folded(
        word, tag("p", warning), form(ask, action, button=f"Yes, {word.lower()}"), class_="confirm"
    )


def labelled(
    label: str,
    name: str,
    *,
    kind: str = "text",
    required: bool = False,
    wide: bool = False,
) -> Html:
    """A field with its label. ``kind`` is the type of an ``input``; ``wide`` is for sentences."""
    box = tag("input", name=name, type=kind, required=required)
    return tag("label", tag("span", label), box, class_="wide" if wide else None)


def options(label: str, name: str, words: tuple[str, ...], now: str = "") -> Html:
    """A choice of ``words`` with its label; ``now`` is the one that is chosen."""
    shown = (tag("option", word, value=word, selected=word == now) for word in words)
    return tag("label", tag("span", label), tag("select", *shown, name=name))


def secret_once(what: str, text: str, more: str) -> Html:
    """Something that is shown now and never again."""
    return tag(
        "div",
        tag("p", tag("strong", what)),
        tag("pre", text, tabindex=0),
        tag("p", more, class_="dim"),
        class_="once",
        role="status",
    )
