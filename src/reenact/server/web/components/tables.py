"""Tables, filters and pagination."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec

from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.web.components.formatting import count
from reenact.server.web.components.forms import select_field
from reenact.server.web.components.html import Child, Html, fragment, link, tag

__all__ = [
    "ListPart",
    "choice",
    "field",
    "filters",
    "list_part",
    "pager",
    "since_until",
    "spans",
    "table",
    "time_filter",
    "times_of",
]

Row = Sequence[Child]
Item = TypeVar("Item")

_HOUR: Final = 3_600_000
_SPANS: Final = (
    (str(_HOUR), "the last hour"),
    (str(24 * _HOUR), "the last day"),
    (str(7 * 24 * _HOUR), "the last week"),
)
"""Milliseconds, and what to call them."""
_LONGEST: Final = 15
_ITEMS: Final = 500
_SIZE: Final = 4 << 20


class ListPart(msgspec.Struct, frozen=True, kw_only=True):
    """Part of a list that is too long for one page. It starts with item ``first``, and ends after 500
    items or 4 MiB of HTML. ``name`` is its parameter in ``query``, the query string of the page."""

    name: str
    first: int = 1
    query: tuple[tuple[str, str], ...] = ()

    def of(
        self, items: Sequence[Item], show: Callable[[Item], Html]
    ) -> tuple[list[Item], list[Html]]:
        """Return the items of this part, and their HTML."""
        shown: list[Html] = []
        size, start = 0, self.first - 1
        for one in items[start : start + _ITEMS]:
            shown.append(show(one))
            size += len(shown[-1])
            if size > _SIZE:
                break
        return [*items[start : start + len(shown)]], shown

    def links(self, shown: int, whole: int, noun: str, marked: int | None = None) -> Html | None:
        """Return the position in the list and links to its first and its next part; None if the page
        shows all of it. ``marked`` is the number of an item to link to, the first that differs."""
        if shown == whole:
            return None
        last = self.first + shown - 1
        where = f"{self.first:,}–{last:,}" if shown else "None"
        ways: list[Html] = []
        if self.first > 1:
            ways.append(link(self._address(1), "First", rel="first"))
        if last < whole:
            ways.append(link(self._address(last + 1), "Next", rel="next"))
        if marked is not None and not self.first <= marked <= last:
            ways.append(link(self._address(marked), "First difference"))
        return tag(
            "nav",
            tag("span", f"{where} of {count(whole, noun)}", class_="dim"),
            fragment(*ways),
            aria_label=f"Pages of {noun}s",
            class_="pieces",
        )

    def _address(self, first: int) -> str:
        others = [one for one in self.query if one[0] != self.name]
        query = urlencode([*others, *([(self.name, str(first))] if first > 1 else [])])
        return f"?{query}#{self.name}"


def list_part(context: RequestContext, name: str) -> ListPart:
    """Return the part of a list that the address of the page specifies. Raises :class:`Problem`."""
    query = tuple(
        (key, value) for key, value in context.request.query_params.multi_items() if value
    )
    return ListPart(name=name, first=context.number(name, 1, least=1), query=query)


def table(
    heads: Sequence[str], rows: Iterable[Row], *, none: str, caption: str, brief: bool = False
) -> Html:
    """Return a table, or the text ``none`` if it has no rows.

    On narrow screens each cell is labelled with its head, except in a ``brief`` table.
    """
    body = [
        tag("tr", *(tag("td", cell, data_head=head) for head, cell in zip(heads, row, strict=True)))
        for row in rows
    ]
    if not body:
        return tag("p", none, class_="none")
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, class_="unseen"),
            tag("thead", tag("tr", *map(_head, heads))),
            tag("tbody", *body),
            class_="list brief" if brief else "list",
        ),
        class_="scroll",
    )


def _head(words: str) -> Html:
    """Return a column heading. A column of buttons has none."""
    return tag("th", words, scope="col") if words else tag("td")


def filters(
    context: RequestContext,
    action: str,
    *fields: Html,
    more: Sequence[Html] = (),
    open_: bool = False,
) -> Html:
    """Return a form whose state is the address.

    ``more`` are rarely used fields. On a narrow screen it is collapsed while no filter is set
    (``page.js``).
    """
    asked = any(value for name, value in context.request.query_params.items() if name != "limit")
    folded = tag(
        "details", tag("summary", "More filters"), tag("div", *more, class_="fields"), open=open_
    )
    form = tag(
        "form",
        tag(
            "div",
            *fields,
            tag("button", "Search"),
            link(action, "Clear", class_="button") if asked else None,
            class_="fields",
        ),
        folded if more else None,
        method="get",
        action=action,
        role="search",
    )
    return tag(
        "details",
        tag("summary", "Search and filter"),
        form,
        open=True,
        class_="filters",
        data_folds=not asked,
    )


def field(
    context: RequestContext,
    name: str,
    label: str,
    *,
    kind: str = "text",
    hint: str = "",
    known: Iterable[str] = (),
) -> Html:
    """Return a filter field with the value from the address. ``known`` are suggestions."""
    offered = sorted({*known} - {""})
    box = tag(
        "input",
        name=name,
        type=kind,
        value=context.query(name),
        placeholder=hint or None,
        list=f"known-{name}" if offered else None,
    )
    words = (tag("option", value=one) for one in offered)
    return tag(
        "label",
        tag("span", label),
        box,
        tag("datalist", *words, id=f"known-{name}") if offered else None,
    )


def choice(
    context: RequestContext, name: str, label: str, options: Sequence[tuple[str, str]]
) -> Html:
    """Return a select field with the value from the address. ``options`` are values with labels."""
    return select_field(label, name, options, context.query(name))


def pager(
    context: RequestContext, following: str | None, words: tuple[str, str] = ("Newest", "Older")
) -> Html | None:
    """Return links to the first and the next page of a list, with the current filters.

    ``words`` name the order of the list.
    """
    query = [(name, value) for name, value in context.request.query_params.multi_items() if value]
    kept = [(name, value) for name, value in query if name != "cursor"]
    ways: list[Html] = []
    if len(kept) != len(query):
        ways.append(link(f"?{urlencode(kept)}", words[0], rel="first"))
    if following:
        ways.append(link(f"?{urlencode([*kept, ('cursor', following)])}", words[1], rel="next"))
    return tag("nav", fragment(*ways), aria_label="Pages", class_="pieces") if ways else None


def time_filter(context: RequestContext) -> Html:
    """Return the filter for a time span before now."""
    return choice(context, "within", "When", spans(context))


def spans(context: RequestContext) -> list[tuple[str, str]]:
    """Return the options of ``within``, including a custom value from the address."""
    now = context.query("within")
    other = [(now, "as in the address")] if now not in ("", *(one for one, _ in _SPANS)) else []
    return [("", "any time"), *_SPANS, *other]


def since_until(context: RequestContext) -> tuple[int, int]:
    """Return the times of a filter in milliseconds, 0 for none. Raises :class:`Problem`."""
    found = times_of(context)
    since, within = found.get("since", 0), found.get("within", 0)
    if within:
        since = max(since, context.server.now() - within)
    return since, found.get("until", 0)


def times_of(context: RequestContext) -> dict[str, int]:
    """Return ``from``, ``to`` and ``within`` of the address in the form of a search.

    Missing ones are omitted. Raises :class:`Problem`.
    """
    found = {
        "since": _moment(context, "from"),
        "until": _moment(context, "to"),
        "within": _span(context),
    }
    return {name: value for name, value in found.items() if value}


def _span(context: RequestContext) -> int:
    text = context.query("within")
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST):
        if text:
            raise Problem("invalid", "within is a number of milliseconds", field="within")
        return 0
    return int(text)


def _moment(context: RequestContext, name: str) -> int:
    text = context.query(name)
    if not text:
        return 0
    try:
        at = datetime.fromisoformat(text)
        return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise Problem("invalid", f"{name} is a time such as 2026-01-31T14:00", field=name) from None
