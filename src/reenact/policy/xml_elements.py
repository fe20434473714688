"""The content of XML elements with secret names: ``<password>…</password>``, ``<wsse:Password>``.

Namespaces, attributes, CDATA sections and nested elements are allowed for, and XML that was written as text
inside XML (``&lt;password&gt;``). Also the pairs of elements in which a name stands before its value:
``<key>password</key><string>…</string>`` in a property list, ``<name>…</name><value>…</value>`` elsewhere,
and elements with the name in an attribute: ``<entry key="password">…</entry>``.
"""

from __future__ import annotations

import re

import msgspec

from reenact.policy.behind import Finding, Found
from reenact.policy.patterns import late

__all__ = ["Element", "attributed_content", "element_at", "element_content", "paired_content"]

_OPENING = late(r"(?P<open><|&lt;)(?P<name>(?:[A-Za-z_][\w.\-]{0,60}:)?[\w.\-]{0,100})\Z", re.ASCII)
_REACH = 200
_TAG_END = late(r"""(?:[^<>"']++|"[^"<]{0,4000}"|'[^'<]{0,4000}')*+>""")
_ESCAPED_TAG_END = late(r"[^<>]{0,4000}?&gt;")
_PIECES = late(
    r"<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)|<!--.*?-->|<[^<>]*>|(?P<run>[^<]+)", re.DOTALL
)
_ESCAPED_PIECES = late(
    r"&lt;!\[CDATA\[(?P<cdata>.*?)(?:\]\]&gt;|\Z)|&lt;.*?&gt;|(?P<run>(?:[^&<]++|&(?!lt;))+)",
    re.DOTALL,
)
_NAMED_BEFORE = late(r"<(?P<tag>key|name)>\s{0,20}[\w.\-]{0,100}\Z", re.IGNORECASE | re.ASCII)
_NAMED_AFTER = late(
    r"\s{0,20}</(?:key|name)>\s{0,100}<(?P<tag>[A-Za-z_][\w.:\-]{0,60})>(?P<value>[^<]*)",
    re.IGNORECASE | re.ASCII,
)


_ATTRIBUTE_BEFORE = late(
    r"<(?:[\w.\-]{1,60}:)?(?:arg|attribute|entry|env|field|item|param|parameter|prop|property|setting|string"
    r"|variable)\s[^<>]{0,200}?(?:key|name)\s{0,4}=\s{0,4}\\*\Z",
    re.IGNORECASE | re.ASCII,
)
_ATTRIBUTE_AFTER = late(r"[^<>]{0,200}(?<!/)>(?P<value>[^<]+)</", re.ASCII)


class Element(msgspec.Struct, frozen=True):
    """``name`` as it is written, with its namespace; ``escaped``: its tags are ``&lt;`` and ``&gt;``.

    ``alone``: no letter stands before the tag, as one does in ``List<Token>``.
    """

    name: str
    escaped: bool
    alone: bool

    @property
    def local_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(":")[2]


def element_at(text: str, start: int, end: int) -> Element | None:
    """The element whose opening tag has the end of its name at ``start`` to ``end``, or None."""
    opening = _OPENING.search(text, max(0, start - _REACH), start)
    if opening is None:
        return None
    name = opening["name"] + text[start:end].rstrip(" .+[]-")
    before = text[opening.start() - 1 : opening.start()] if opening.start() else ""
    return Element(name, opening["open"] != "<", not (before.isalnum() or before == "_"))


def element_content(text: str, element: Element, place: int, unclosed: set[str]) -> Found:
    """Every text in ``element``, whose opening tag continues at ``place`` behind its name.

    Nothing for an empty element. Of one that is cut off, the text up to the cut. ``unclosed`` are the
    closing tags that were searched for in vain before ``place``: none of them is behind it.
    """
    tag = (_ESCAPED_TAG_END if element.escaped else _TAG_END).match(text, place)
    if tag is None:
        return [], 0
    mark = "&gt;" if element.escaped else ">"
    if text[place : tag.end() - len(mark)].endswith("/"):
        return [], 0
    start = tag.end()
    closing = ("&lt;/" if element.escaped else "</") + element.name
    end = -1 if closing in unclosed else text.find(closing, start)
    if end < 0:
        unclosed.add(closing)
        end = _cut_off(text, element, start, closing)
    if end <= start:
        return [], 0
    pieces = (_ESCAPED_PIECES if element.escaped else _PIECES).finditer(text, start, end)
    return [found for piece in pieces for found in _found(text, piece)], end


def _cut_off(text: str, element: Element, start: int, closing: str) -> int:
    """Where the content ends that nothing closes; ``start`` when this is not an element at all."""
    if not element.alone:
        return start
    mark = "&lt;" if element.escaped else "<"
    rest = text.find(mark, start)
    if rest == start and text.startswith(mark + "![CDATA[", start):
        return len(text)
    if rest >= 0:
        is_cut = len(text) - rest <= len(closing) and closing.startswith(text[rest:])
        return rest if is_cut else start
    return start if any(map(str.isspace, text[start:].strip())) else len(text)


def _found(text: str, piece: re.Match[str]) -> list[Finding]:
    group = "cdata" if piece["cdata"] is not None else "run"
    start, end = piece.span(group)
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return [Finding(start, end, "name")] if start < end else []


def paired_content(text: str, start: int, place: int) -> Found | None:
    """The value behind a name that is itself the content of an element; None where it is not."""
    if _NAMED_BEFORE.search(text, max(0, start - _REACH), start) is None:
        return None
    value = _NAMED_AFTER.match(text, place)
    if value is None:
        return None
    first, last = value.span("value")
    return ([Finding(first, last, "name")] if text[first:last].strip() else []), last


def attributed_content(text: str, opening: int, place: int) -> Found | None:
    """The content of the element that has the name, in quotes from ``opening`` to ``place``, in an attribute."""
    before = text[max(0, opening - _REACH) : opening]
    start = before.rfind("<")
    if start < 0 or _ATTRIBUTE_BEFORE.match(before, start) is None:
        return None
    value = _ATTRIBUTE_AFTER.match(text, place)
    if value is None or not value["value"].strip():
        return None
    return [Finding(*value.span("value"), "name")], value.end("value")
