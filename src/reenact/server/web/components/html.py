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
    """Markup that Reenact generated, which is not escaped again."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute: TypeAlias = str | int | float | bool | None


def visible(text: str) -> str:
    """Return ``text`` with invisible characters as escapes."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def fragment(*children: Child) -> Html:
    """Join children. None is omitted."""
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
    """Return a long name that can wrap at its separators."""
    return Html("<wbr>".join(map(fragment, _JOINTS.split(text))))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element.

    ``class_`` is ``class``, ``aria_label`` is ``aria-label``. None and False omit an attribute.
    True writes it without a value.
    """
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
    """Return a textarea with ``text``. A parser drops the first line break, so one is added."""
    said = "".join(_attribute(one, value) for one, value in attributes.items())
    return Html(f"<textarea{said}>\n{escape(text)}</textarea>")


def url(path: str, /, *parts: str, **query: str | int | None) -> str:
    """Return an address of this server.

    ``parts`` fill the ``{}`` of ``path``. Empty values of ``query`` are omitted.
    """
    there = path.format(*(quote(part, safe="") for part in parts))
    wanted = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{there}?{urlencode(wanted)}" if wanted else there


def link(href: str, *children: Child, **attributes: Attribute) -> Html:
    """Return a link. ``href`` must be a result of :func:`url`, never recorded data."""
    return tag("a", *children, href=href, **attributes)
