"""Two exchanges side by side (pure): the verdict, where they part, what differs, and how long each
took. Noise is folded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from reenact.exchange.comparison.changes import Changed
from reenact.exchange.comparison.result import CallChange, Comparison, ProcessorChange
from reenact.exchange.document import to_document
from reenact.exchange.model import Exchange, Payload
from reenact.server.pages.gaps import Gap, changes
from reenact.server.pages.lines import side_by_side
from reenact.server.pages.markup import Child, Html, breakable, fragment, link, tag, url
from reenact.server.pages.saying import badge, count, duration, revision, stamp
from reenact.server.pages.values import folded, value

__all__ = ["Beside", "comparison"]

Beside = Callable[[tuple[str, ...], Gap | None], Html | None]
"""What stands beside a difference in a section, or beside all of it: see the paths of noise rules."""

_LISTED: Final = 500
_VERDICTS: Final = {
    "identical": "Nothing differs.",
    "equivalent": "Only noise differs.",
    "fixed": "The {} failed; the {} did not.",
    "regressed": "The {} went well; the {} did not.",
    "diverged": "What the {} did, the {} did otherwise.",
}
REPLAYED: Final = ("original", "replay")


def _nothing(root: tuple[str, ...], gap: Gap | None) -> Html | None:
    return None


def comparison(
    found: Comparison,
    before: Exchange,
    after: Exchange,
    beside: Beside = _nothing,
    names: tuple[str, str] = REPLAYED,
    places: tuple[Child, Child] = ("", ""),
) -> Html:
    """What a page says of ``found``, the comparison of ``before`` and ``after``, which are called by
    ``names`` and were at ``places``."""
    result = partial(beside, ("result",))
    given = (names[0], "edited" if names == REPLAYED else names[1])
    return fragment(
        _verdict(found, names),
        _summary(found, before, after, names, places),
        _part("Start payload", found.start, before.start, after.start, given, None),
        _part("Result", found.result, before.result, after.result, names, result),
        _processors(found.processors, beside),
        _calls(found.calls, beside),
        _divergences(found.divergences),
    )


def _verdict(found: Comparison, names: tuple[str, str]) -> Html:
    return tag(
        "div",
        tag("p", badge(found.verdict), " ", _words(found).format(*names)),
        tag("p", tag("b", "First difference: "), found.first) if found.first else None,
        _refusals(found),
        class_=f"verdict {found.verdict}",
    )


def _refusals(found: Comparison) -> Html | None:
    """Often the cause of all else."""
    refused = sum(one.answer == "refused" for one in found.calls)
    if not refused:
        return None
    was = "was" if refused == 1 else "were"
    said = f"{count(refused, 'call')} that the recording does not have {was} refused."
    return tag("p", said)


def _words(found: Comparison) -> str:
    """An edit is no noise, and does not count either."""
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
        ("Status", badge(found.status.before), badge(found.status.after)),
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
    beside: Callable[[Gap], Html | None] | None,
) -> Html:
    real = [one for one in found if not one.noise]
    noise = [one for one in found if one.noise]
    both: Html | None = None
    if real and before is not None and after is not None:
        table = side_by_side(to_document(before), to_document(after), names)
        both = folded("Side by side", table, open_=True)
    said = changes(real, none="The same.", beside=beside)
    return tag("section", tag("h2", title), said, both, _noise(noise))


def _noise(found: Sequence[Changed]) -> Html | None:
    if not found:
        return None
    return folded(f"Noise: {count(len(found), 'place')}", changes(found), class_="fold noise")


def _processors(found: Sequence[ProcessorChange], beside: Beside) -> Html | None:
    if not found:
        return None
    return tag("section", tag("h2", "Steps"), *_folding(found, partial(_processor, beside), "step"))


def _calls(found: Sequence[CallChange], beside: Beside) -> Html | None:
    if not found:
        return None
    return tag(
        "section", tag("h2", "Outbound calls"), *_folding(found, partial(_call, beside), "call")
    )


def _folding(found: Sequence[Any], show: Any, noun: str) -> Iterator[Child]:
    """What differs, in order; runs of what does not are folded."""
    quiet: list[Any] = []
    for one in [*found[:_LISTED], None]:
        if one is not None and (one.state == "same" or one.noise):
            quiet.append(one)
            continue
        if quiet:
            yield folded(
                f"{count(len(quiet), noun)} the same", *map(show, quiet), class_="fold same"
            )
            quiet = []
        if one is not None:
            yield show(one)
    if len(found) > _LISTED:
        yield tag("p", f"and {count(len(found) - _LISTED, noun)} more", class_="dim")


def _processor(beside: Beside, one: ProcessorChange) -> Html:
    took = f"{duration(one.duration.before)} → {duration(one.duration.after)}"
    head = fragment(
        _state(one.state), " ", tag("b", one.path), " ", tag("span", took, class_="dim")
    )
    root = ("processors", one.processor_id)
    return _change(head, one.changes, one.state, partial(beside, root), one.noise)


def _call(beside: Beside, one: CallChange) -> Html:
    answer = {"recorded": "got the recorded answer", "refused": "was refused"}.get(one.answer, "")
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
    beside: Callable[[Gap | None], Html | None],
    quiet: bool,
) -> Html:
    if not found:
        whole = beside(None) if state in ("added", "removed") and not quiet else None
        return tag("div", head, " ", whole, class_=f"change {state}")
    real = [one for one in found if not one.noise]
    noise = [one for one in found if one.noise]
    said = changes(real, beside=beside)
    return folded(head, said, _noise(noise), open_=bool(real), class_=f"change {state}")


def _divergences(found: Sequence[dict[str, Any]]) -> Html | None:
    if not found:
        return None
    items = (
        folded(
            fragment(tag("code", str(one.get("code", ""))), " ", str(one.get("detail", ""))[:300]),
            tag("p", str(one.get("hint", "")), class_="dim") if one.get("hint") else None,
            value(one),
            class_="change",
        )
        for one in found[:_LISTED]
    )
    return tag("section", tag("h2", "Divergences"), *items)
