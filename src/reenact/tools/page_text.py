"""Readable text of a page: HTML as Markdown or plain text, marked as untrusted content."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final, Literal
from urllib.parse import urljoin

import msgspec

__all__ = [
    "Mode",
    "Page",
    "read_page",
    "wrap",
]

Mode = Literal["markdown", "text"]

_SKIPPED: Final = frozenset(
    "script style noscript template svg canvas iframe object form button select nav footer aside "
    "dialog head".split()
)
_BLOCKS: Final = frozenset(
    "p div section article main header table tr ul ol dl dt dd figure figcaption address details "
    "summary hr fieldset blockquote h1 h2 h3 h4 h5 h6 pre li".split()
)
_CORES: Final = ("article", "main")
_VOID: Final = frozenset("area base br col embed hr img input link meta source track wbr".split())
_SPACES = re.compile(r"[ \t\r\n\f]+")
_LINES = re.compile(r"\n{3,}")
_MARKS: Final = {"strong": "**", "b": "**", "em": "*", "i": "*", "code": "`"}


class Page(msgspec.Struct, frozen=True):
    """``title`` is empty where there is none."""

    title: str
    text: str


def read_page(html: str, mode: Mode, *, base: str = "") -> Page:
    """Return the readable text of ``html``. Links are resolved against ``base``."""
    reader = _Reader(mode == "markdown", base)
    reader.feed(html)
    reader.close()
    return Page(_SPACES.sub(" ", reader.title).strip(), reader.text())


class _Reader(HTMLParser):
    def __init__(self, marks: bool, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self._marks = marks
        self._base = base
        self._all: list[str] = []
        self._core: list[str] = []
        self._depth = 0
        """Of cores that are open."""
        self._skipping: list[str] = []
        self._in_title = False
        self._lists: list[int] = []
        """Of each open list, the number of its last item; -1 for one without numbers."""
        self._pre = 0
        self._links: list[tuple[str, int]] = []

    def text(self) -> str:
        """Return the text of the main content, or the complete text if there is none."""
        found = "".join(self._core if "".join(self._core).strip() else self._all)
        lines = (line.rstrip() for line in found.splitlines())
        return _LINES.sub("\n\n", "\n".join(lines)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and "svg" not in self._skipping:
            self._in_title = True
        if self._skipping or tag in _SKIPPED:
            if tag not in _VOID:
                self._skipping.append(tag)
            return
        if tag in _CORES:
            self._depth += 1
        if tag in _BLOCKS:
            self._break(tag)
        elif tag == "br":
            self._put("\n")
        elif tag in ("td", "th"):
            self._say(" | ")
        elif self._marks and tag in _MARKS and not self._pre:
            self._put(_MARKS[tag])
        elif self._marks and tag == "a":
            href = dict(attrs).get("href") or ""
            self._links.append((href, len(self._all)))
            self._put("[")
        if tag in ("ul", "ol"):
            self._lists.append(0 if tag == "ol" else -1)
        self._pre += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        if self._skipping:
            if tag in self._skipping:
                del self._skipping[len(self._skipping) - 1 - self._skipping[::-1].index(tag) :]
            return
        if tag == "a" and self._links:
            self._end_link(*self._links.pop())
        elif self._marks and tag in _MARKS and not self._pre:
            self._put(_MARKS[tag])
        elif tag in _BLOCKS:
            self._put("\n```\n" if self._marks and tag == "pre" else "\n")
            if tag not in ("li", "tr", "dt"):
                self._put("\n")
        if tag in ("ul", "ol") and self._lists:
            self._lists.pop()
        if tag == "pre" and self._pre:
            self._pre -= 1
        if tag in _CORES and self._depth:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._skipping:
            self._say(data if self._pre else _SPACES.sub(" ", data))

    def _say(self, text: str) -> None:
        """Add words. Leading spaces after a space or a line break are omitted."""
        if not self._pre and (not self._all or self._all[-1][-1:].isspace()):
            text = text.lstrip(" ")
        if text:
            self._put(text)

    def _put(self, text: str) -> None:
        self._all.append(text)
        if self._depth:
            self._core.append(text)

    def _break(self, tag: str) -> None:
        self._put("\n" if tag in ("li", "tr", "dt") else "\n\n")
        if tag == "li":
            self._put(self._bullet())
        elif not self._marks:
            return
        elif tag[0] == "h" and tag[1:].isdecimal():
            self._put("#" * int(tag[1:]) + " ")
        elif tag == "blockquote":
            self._put("> ")
        elif tag == "pre":
            self._put("```\n")
        elif tag == "hr":
            self._put("---\n\n")

    def _bullet(self) -> str:
        indent = "  " * max(0, len(self._lists) - 1)
        if not self._lists or self._lists[-1] < 0:
            return f"{indent}- "
        self._lists[-1] += 1
        return f"{indent}{self._lists[-1]}. "

    def _end_link(self, href: str, start: int) -> None:
        """End a link. An address without a target, or outside the web, is omitted."""
        target = urljoin(self._base, href)
        said = "".join(self._all[start + 1 :]).strip()
        if said and href and not href.startswith("#") and target.startswith(("http:", "https:")):
            self._put(f"]({target})")
            return
        for pieces in (self._all, self._core):
            if "[" in pieces:
                del pieces[len(pieces) - 1 - pieces[::-1].index("[")]


_BEGIN = "<<<EXTERNAL_UNTRUSTED_CONTENT>>>"
_END = "<<<END_EXTERNAL_UNTRUSTED_CONTENT>>>"
_ENVELOPE_MARKS = re.compile(r"<{2,}\s*(?:END_)?EXTERNAL_UNTRUSTED_CONTENT\s*>{2,}", re.IGNORECASE)


def wrap(text: str, source: str) -> str:
    """Return ``text`` between markers that do not occur in it."""
    inside = _ENVELOPE_MARKS.sub("[mark removed]", text)
    return f"{_BEGIN}\nSource: {source}\n---\n{inside}\n{_END}"
