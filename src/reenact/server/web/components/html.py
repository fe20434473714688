"""HTML that is safe by construction: everything except :class:`Html` is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final, TypeAlias
from urllib.parse import quote, urlencode

__all__ = [
    "Attribute",
    "Child",
    "Html",
    "breakable",
    "fragment",
    "link",
    "tag",
    "textarea",
    "url",
    "visible",
]

_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta"})
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff]"
)


_JOINTS: Final = re.compile(r"(?<=[/?&=_])(?=[^/?&=_])")


class Html(str):
    """Markup of ours."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute: TypeAlias = str | int | float | bool | None


def visible(text: str) -> str:
    """Return ``text`` with invisible characters as escapes."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def fragment(*children: Child) -> Html:
    """Children one after another. None is nothing."""
    return Html("".join(map(_inside, children)))


def _inside(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return str(child)
    if isinstance(child, (str, int)):
        return escape(visible(str(child)))
    return "".join(map(_inside, child))


def breakable(text: str) -> Html:
    """A long name that is broken at its joints where it does not fit."""
    return Html("<wbr>".join(map(fragment, _JOINTS.split(text))))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. ``class_`` is ``class``, ``aria_label`` is ``aria-label``. None and False leave an
    attribute out, True writes it without a value."""
    said = "".join(_attribute(one, value) for one, value in attributes.items())
    if name in _VOID:
        return Html(f"<{name}{said}>")
    return Html(f"<{name}{said}>{fragment(*children)}</{name}>")


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    plain = name.rstrip("_").replace("_", "-")
    return f" {plain}" if value is True else f' {plain}="{escape(str(value))}"'


def textarea(text: str, **attributes: Attribute) -> Html:
    """A field that holds ``text`` as it is: a parser drops the first line break, and so there is one
    more."""
    said = "".join(_attribute(one, value) for one, value in attributes.items())
    return Html(f"<textarea{said}>\n{escape(text)}</textarea>")


def url(path: str, /, *parts: str, **query: str | int | None) -> str:
    """A place of this server. ``parts`` fill the ``{}`` of ``path``; what is empty in ``query`` is
    left out."""
    there = path.format(*(quote(part, safe="") for part in parts))
    wanted = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{there}?{urlencode(wanted)}" if wanted else there


def link(href: str, *children: Child, **attributes: Attribute) -> Html:
    """``href`` is made by :func:`url`, and never recorded."""
    return tag("a", *children, href=href, **attributes)
