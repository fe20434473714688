"""Comparison of an exchange with its replay as HTML: verdict, differences and timing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from reenact.exchange.comparison.differences import Changed
from reenact.exchange.comparison.result import CallChange, Comparison, ProcessorChange
from reenact.exchange.model import Exchange, Payload
from reenact.exchange.payload import to_document
from reenact.server.web.components.diff import PathChange, path_changes, side_by_side
from reenact.server.web.components.formatting import (
    badge,
    count,
    duration,
    exchange_status,
    folded,
    judged,
    revision,
    stamp,
    value,
)
from reenact.server.web.components.html import Child, Html, breakable, fragment, link, tag, url
from reenact.server.web.components.tables import ListPart

__all__ = ["PARTS", "Beside", "comparison"]

Beside = Callable[[tuple[str, ...], PathChange | None], Html | None]
"""Renders an addition to a difference, or to a complete section, by its path in noise rules."""

_VERDICTS: Final = {
    "identical": "Nothing differs.",
    "equivalent": "Only noise differs.",
    "fixed": "The {} failed; the {} did not.",
    "regressed": "The {} went well; the {} did not.",
    "diverged": "The {} and the {} behaved differently.",
}
REPLAYED: Final = ("original", "replay")
PARTS: Final = ("steps", "calls", "divergences")
"""Lists of a comparison that can be too long for one page."""


def _nothing(root: tuple[str, ...], gap: PathChange | None) -> Html | None:
    return None


def comparison(
    found: Comparison,
    before: Exchange,
    after: Exchange,
    beside: Beside = _nothing,
    names: tuple[str, str] = REPLAYED,
    places: tuple[Child, Child] = ("", ""),
    parts: Mapping[str, ListPart] = {},
) -> Html:
    """Render the comparison ``found`` of ``before`` and ``after``.

    ``names`` and ``places`` describe both; ``parts`` are the visible parts of long lists, by
    :data:`PARTS`.
    """
    part = {name: parts.get(name, ListPart(name=name)) for name in PARTS}
    result = partial(beside, ("result",))
    given = (names[0], "edited" if names == REPLAYED else names[1])
    return fragment(
        _verdict(found, names),
        _summary(found, before, after, names, places),
        _part("Start payload", found.start, before.start, after.start, given, None),
        _part("Result", found.result, before.result, after.result, names, result),
        _processors(found.processors, beside, part["steps"]),
        _calls(found.calls, beside, part["calls"]),
        _divergences(found.divergences, part["divergences"]),
    )


def _verdict(found: Comparison, names: tuple[str, str]) -> Html:
    return tag(
        "div",
        tag(
            "p",
            judged(found.verdict, "", found.ending.after, found.http_status.after),
            " ",
            _words(found).format(*names),
            f" The {names[1]} failed, too." if _fails_again(found) else None,
        ),
        tag("p", tag("b", "First difference: "), found.first) if found.first else None,
        _refusals(found),
        class_=f"verdict {found.verdict}{' failed' if found.ending.after == 'failed' else ''}",
    )


def _fails_again(found: Comparison) -> bool:
    return found.ending.before == found.ending.after == "failed"


def _refusals(found: Comparison) -> Html | None:
    """Show the number of refused calls, which are often the cause of other differences."""
    refused = sum(one.answer == "refused" for one in found.calls)
    if not refused:
        return None
    was = "was" if refused == 1 else "were"
    said = f"{count(refused, 'call')} that the recording does not have {was} refused."
    return tag("p", said)


def _words(found: Comparison) -> str:
    """Return the summary. An edit is neither noise nor a difference that counts."""
    if found.verdict != "equivalent" or all(one.noise for one in found.start):
        return _VERDICTS[found.verdict]
    noise = " and noise differ" if found.counts.noise else " differs"
    return f"Only the start payload{noise}."


def _summary(
    found: Comparison,
    before: Exchange,
    after: Exchange,
    names: tuple[str, str],
    places: tuple[Child, Child],
) -> Html:
    one, other = (name.capitalize() for name in names)
    counts = found.counts
    rows: list[tuple[str, Child, Child]] = [
        ("Started (UTC)", _to(before), _to(after)),
        *([("Where", *places)] if any(places) else []),
        (
            "Status",
            exchange_status(found.status.before, found.http_status.before),
            exchange_status(found.status.after, found.http_status.after),
        ),
        ("Duration", duration(found.duration.before), duration(found.duration.after)),
        ("Revision", revision(found.revision.before), revision(found.revision.after)),
    ]
    said = ", ".join(
        f"{number:,} {word}"
        for word, number in (
            ("changed", counts.changed),
            ("added", counts.added),
            ("removed", counts.removed),
            ("noise", counts.noise),
        )
        if number
    )
    table = tag(
        "table",
        tag("caption", f"{one} and {names[1]}", class_="unseen"),
        tag(
            "thead",
            tag("tr", tag("td"), tag("th", one, scope="col"), tag("th", other, scope="col")),
        ),
        tag(
            "tbody",
            *(
                tag("tr", tag("th", name, scope="row"), tag("td", left), tag("td", right))
                for name, left, right in rows
            ),
        ),
        class_="pairs both",
    )
    return fragment(table, tag("p", said, class_="dim") if said else None)


def _to(exchange: Exchange) -> Html:
    began = stamp(exchange.started_at, none=exchange.exchange_id)
    return link(url("/exchanges/{}", exchange.exchange_id), began, title=exchange.exchange_id)


def _part(
    title: str,
    found: Sequence[Changed],
    before: Payload | None,
    after: Payload | None,
    names: tuple[str, str],
    beside: Callable[[PathChange], Html | None] | None,
) -> Html:
    real = [one for one in found if not one.noise]
    noise = [one for one in found if one.noise]
    both: Html | None = None
    if real and before is not None and after is not None:
        table = side_by_side(to_document(before), to_document(after), names)
        both = folded("Side by side", table, open_=True)
    said = path_changes(real, none="The same.", beside=beside)
    return tag("section", tag("h2", title), said, both, _noise(noise))


def _noise(found: Sequence[Changed]) -> Html | None:
    if not found:
        return None
    return folded(f"Noise: {count(len(found), 'place')}", path_changes(found), class_="fold noise")


def _processors(found: Sequence[ProcessorChange], beside: Beside, part: ListPart) -> Html | None:
    if not found:
        return None
    shown = _folding(found, partial(_processor, beside), "step", part)
    return tag("section", tag("h2", "Steps"), *shown, id=part.name)


def _calls(found: Sequence[CallChange], beside: Beside, part: ListPart) -> Html | None:
    if not found:
        return None
    shown = _folding(found, partial(_call, beside), "call", part)
    return tag("section", tag("h2", "Outbound calls"), *shown, id=part.name)


def _folding(
    found: Sequence[Any], show: Callable[[Any], Html], noun: str, part: ListPart
) -> Iterator[Child]:
    """Render the differences in order, with equal stretches folded."""
    items, drawn = part.of(found, show)
    quiet: list[Html] = []
    for one, html in zip(items, drawn, strict=True):
        if _is_quiet(one):
            quiet.append(html)
            continue
        yield _quietly(quiet, noun)
        quiet = []
        yield html
    yield _quietly(quiet, noun)
    first = next((at for at, one in enumerate(found, 1) if not _is_quiet(one)), None)
    yield part.links(len(items), len(found), noun, first)


def _is_quiet(one: Any) -> bool:
    return one.state == "same" or bool(one.noise)


def _quietly(found: Sequence[Html], noun: str) -> Html | None:
    if not found:
        return None
    return folded(f"{count(len(found), noun)} the same", *found, class_="fold same")


def _processor(beside: Beside, one: ProcessorChange) -> Html:
    took = f"{duration(one.duration.before)} → {duration(one.duration.after)}"
    head = fragment(
        _state(one.state), " ", tag("b", one.path), " ", tag("span", took, class_="dim")
    )
    root = ("processors", one.processor_id)
    return _change(head, one.changes, one.state, partial(beside, root), one.noise)


def _call(beside: Beside, one: CallChange) -> Html:
    answer = {"recorded": "got the recorded response", "refused": "was refused"}.get(one.answer, "")
    head = fragment(
        _state(one.state),
        " ",
        tag("span", one.type, class_="dim"),
        " ",
        tag("b", breakable(one.operation)),
        " ",
        tag("span", answer, class_="dim") if answer else None,
    )
    root = ("calls", one.operation)
    return _change(head, one.changes, one.state, partial(beside, root), one.noise)


def _state(state: str) -> Html:
    tones = {"same": "plain", "changed": "busy", "added": "good", "removed": "bad"}
    return badge(state, tone=tones[state])


def _change(
    head: Html,
    found: Sequence[Changed],
    state: str,
    beside: Callable[[PathChange | None], Html | None],
    quiet: bool,
) -> Html:
    if not found:
        whole = beside(None) if state in ("added", "removed") and not quiet else None
        return tag("div", head, " ", whole, class_=f"change {state}")
    real = [one for one in found if not one.noise]
    noise = [one for one in found if one.noise]
    said = path_changes(real, beside=beside)
    return folded(head, said, _noise(noise), open_=bool(real), class_=f"change {state}")


def _divergences(found: Sequence[dict[str, Any]], part: ListPart) -> Html | None:
    if not found:
        return None
    items, drawn = part.of(found, _divergence)
    return tag(
        "section",
        tag("h2", "Divergences"),
        *drawn,
        part.links(len(items), len(found), "divergence"),
        id=part.name,
    )


def _divergence(one: dict[str, Any]) -> Html:
    return folded(
        fragment(tag("code", str(one.get("code", ""))), " ", str(one.get("detail", ""))[:300]),
        tag("p", str(one.get("hint", "")), class_="dim") if one.get("hint") else None,
        value(one),
        class_="change",
    )
