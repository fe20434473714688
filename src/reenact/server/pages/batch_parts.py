"""A batch as HTML (pure): what it would do, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reenact.server.batches.shapes import BatchView, CauseView, Group, Progress
from reenact.server.pages.lists import table
from reenact.server.pages.markup import Child, Html, fragment, link, tag, url
from reenact.server.pages.saying import badge, count, environment, whole
from reenact.server.pages.values import facts

__all__ = ["causes_of", "code", "counted", "doubts", "plan_of", "progress_of"]


def counted(tally: dict[str, int], way: Callable[[str], str] | None = None) -> Html:
    """Words and codes with how often each is; the most frequent first. ``way`` is where a word leads
    to."""
    order = sorted(tally.items(), key=lambda one: (-one[1], one[0]))

    def said(word: str) -> Html:
        return code(word) if way is None else link(way(word), badge(word))

    return tag(
        "span",
        *((tag("span", said(word), f" {number:,}", class_="tally"), " ") for word, number in order),
    )


def code(name: str, tone: str = "") -> Html:
    """A code in words."""
    words = name.replace("_", " ")
    return badge(words, tone=tone, title=name if words != name else "")


def doubts(found: BatchView) -> Html | None:
    """What of a plan would come to nothing as things are."""
    refused = sum(found.plan.refused.values())
    if not refused:
        return None
    which = f"{refused:,} of {count(found.plan.replayable, 'exchange')} would be refused now: "
    return tag("p", which, counted(found.plan.refused), class_="doubts")


def _refusals(one: Group) -> Html | None:
    """Why, and how many unless it is all of them."""
    if not one.refused:
        return None
    some = f"{one.refusals:,} of {one.replayable:,}: " if 0 < one.refusals < one.replayable else ""
    return fragment(some, code(one.refused, tone="bad"), tag("div", one.message, class_="dim"))


def plan_of(found: BatchView) -> Html:
    """What would be replayed where, as it was when it was planned."""
    plan = found.plan
    heads = ("App", "Environment", "Route", "Exchanges", "Replayable", "Agents", "")
    rows: list[tuple[Child, ...]] = [
        (
            whole(one.app),
            environment(one.environment, one.environment_kind),
            one.route_id,
            f"{one.exchanges:,}",
            f"{one.replayable:,}",
            f"{one.agents:,} online",
            _refusals(one),
        )
        for one in plan.groups
    ]
    return tag(
        "section",
        tag("h2", "Plan"),
        facts(
            (
                ("Exchanges", f"{plan.exchanges:,}"),
                ("Can be replayed", f"{plan.replayable:,}"),
                ("May go out into the world", f"{plan.live:,}" if plan.live else ""),
                ("Not found", f"{plan.not_found:,}" if plan.not_found else ""),
                ("Left out", counted(plan.skipped) if plan.skipped else ""),
                ("Would be refused", counted(plan.refused) if plan.refused else ""),
                ("Outbound calls", found.boundaries.replace("_", " ")),
                ("At a time", f"{found.concurrency} per agent"),
                ("A minute", f"{found.per_minute} per agent"),
                ("Reason", found.reason),
                ("Planned by", found.requested_by),
                ("Confirmed by", found.confirmed_by),
            )
        ),
        table(heads, rows, none="Nothing was found.", caption="Where it would run"),
    )


def progress_of(found: BatchView) -> Html:
    """How far it is, and the verdicts so far."""
    progress = found.progress
    done, whole = _done(progress), _done(progress) + progress.waiting + progress.asked

    def of_verdict(word: str) -> str:
        return url("/batches/{}", found.batch_id, verdict=word)

    said = f"{done:,} of {count(whole, 'exchange')}"
    said += f", {progress.asked:,} under way." if progress.asked else "."
    waits = f" It waits: {found.hindered.replace('_', ' ')}." if found.hindered else ""
    return fragment(
        tag("progress", max=max(whole, 1), value=done, aria_label="How far it is"),
        tag("p", said, waits),
        facts(
            (
                ("Verdicts", counted(progress.verdicts, of_verdict) if progress.verdicts else ""),
                ("Outcomes", counted(progress.outcomes) if progress.outcomes else ""),
                ("Codes", counted(progress.codes) if progress.codes else ""),
            )
        ),
    )


def causes_of(batch_id: str, found: Sequence[CauseView]) -> Html | None:
    """Why replays differ: those that differ in the same place are counted, and lead to each other."""
    if not found:
        return None
    rows: list[tuple[Child, ...]] = [
        (
            badge(one.verdict),
            link(url("/batches/{}", batch_id, verdict=one.verdict, cause=one.cause), one.cause),
            f"{one.exchanges:,}",
            link(url("/replays/{}", one.replay_id), "one of them"),
        )
        for one in found
    ]
    heads = ("Verdict", "First difference", "Exchanges", "")
    caption = "Why they differ, what most have first"
    return tag(
        "section", tag("h2", "Why they differ"), table(heads, rows, none="", caption=caption)
    )


def _done(progress: Progress) -> int:
    return progress.ended + progress.refused + progress.skipped + progress.cancelled
