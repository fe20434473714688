"""Plan and results of a batch as HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reenact.server.batches.schema import BatchView, CauseView, Group, Progress
from reenact.server.web.components.formatting import (
    badge,
    count,
    environment,
    facts,
    verdict_tone,
    whole,
)
from reenact.server.web.components.html import Child, Html, fragment, link, tag, url
from reenact.server.web.components.tables import table
from reenact.server.web.replays.plan import drivers_of

__all__ = [
    "batch_state",
    "causes_of",
    "code",
    "counted",
    "plan_of",
    "plan_warnings",
    "progress_of",
    "verdicts",
]


def counted(tally: dict[str, int], tones: Mapping[str, str] | None = None) -> Html:
    """Show words and codes with their counts, most frequent first.

    ``tones`` overrides the colours of some words.
    """
    order = sorted(tally.items(), key=lambda one: (-one[1], one[0]))

    def said(word: str) -> Html:
        return code(word, tone=(tones or {}).get(word, ""))

    return tag(
        "span",
        *((tag("span", said(word), f" {number:,}", class_="tally"), " ") for word, number in order),
    )


def verdicts(progress: Progress, way: Callable[[str], str] | None = None) -> Html:
    """Show verdicts with their counts, and how many of these replays failed.

    ``way`` returns the link of a verdict.
    """

    def said(word: str, number: int) -> Html:
        failed = progress.failed.get(word, 0)
        shown = badge(word, tone=verdict_tone(word, "failed" if failed else ""))
        some = f" ({failed:,} failed)" if failed else ""
        return tag(
            "span",
            shown if way is None else link(way(word), shown),
            f" {number:,}{some}",
            class_="tally",
        )

    order = sorted(progress.verdicts.items(), key=lambda one: (-one[1], one[0]))
    return tag("span", *((said(*one), " ") for one in order))


def batch_state(found: BatchView) -> Html:
    """Show the state of a batch. A completed one has the colour of its worst replay."""
    progress = found.progress
    tones = {verdict_tone(word, "") for word in progress.verdicts}
    tone = ""
    if found.state == "completed":
        worse = progress.refused or any(one != "completed" for one in progress.outcomes)
        if worse or "bad" in tones:
            tone = "bad"
        elif progress.failed or "warn" in tones or not progress.verdicts:
            tone = "warn"
    return badge(found.state, tone=tone)


def code(name: str, tone: str = "") -> Html:
    """Show a code in words."""
    words = name.replace("_", " ")
    return badge(words, tone=tone, title=name if words != name else "")


def plan_warnings(found: BatchView) -> Html | None:
    """Render warnings about replays that cannot succeed at present."""
    refused = sum(found.plan.refused.values())
    if not refused:
        return None
    which = f"{refused:,} of {count(found.plan.replayable, 'exchange')} would be refused now: "
    return tag("p", which, counted(found.plan.refused), class_="doubts")


def _refusals(one: Group) -> Html | None:
    """Show the reasons of refusals, and their number unless all were refused."""
    if not one.refused:
        return None
    some = f"{one.refusals:,} of {one.replayable:,}: " if 0 < one.refusals < one.replayable else ""
    return fragment(some, code(one.refused, tone="bad"), tag("div", one.message, class_="dim"))


def plan_of(found: BatchView) -> Html:
    """Render the planned replays by app and environment."""
    plan = found.plan
    heads = ("App", "Environment", "Route", "Exchanges", "Replayable", "Agents", "Drivers", "")
    rows: list[tuple[Child, ...]] = [
        (
            whole(one.app),
            environment(one.environment, one.environment_kind),
            one.route_id,
            f"{one.exchanges:,}",
            f"{one.replayable:,}",
            whole(f"{one.agents:,} online"),
            drivers_of(one.containment),
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
                ("With live calls", f"{plan.live:,}" if plan.live else ""),
                ("Not found", f"{plan.not_found:,}" if plan.not_found else ""),
                ("Left out", counted(plan.skipped) if plan.skipped else ""),
                ("Would be refused", counted(plan.refused) if plan.refused else ""),
                ("Outbound calls", found.boundaries.replace("_", " ")),
                ("Environment variables", f"{found.environment_variables} values"),
                ("At a time", f"{found.concurrency} per agent"),
                ("A minute", f"{found.per_minute} per agent"),
                ("Reason", found.reason),
                ("Planned by", found.requested_by),
                ("Confirmed by", found.confirmed_by),
            )
        ),
        table(heads, rows, none="Nothing was found.", caption="Target apps and environments"),
    )


def progress_of(found: BatchView) -> Html:
    """Render the progress and the verdicts so far."""
    progress = found.progress
    done, whole = _done(progress), _done(progress) + progress.waiting + progress.asked

    def of_verdict(word: str) -> str:
        return url("/batches/{}", found.batch_id, verdict=word)

    failures = {*progress.endings} - {"completed"}
    said = f"{done:,} of {count(whole, 'exchange')}"
    said += f", {progress.asked:,} under way." if progress.asked else "."
    waits = f" It waits: {found.hindered.replace('_', ' ')}." if found.hindered else ""
    return fragment(
        tag("progress", max=max(whole, 1), value=done, aria_label="Progress"),
        tag("p", said, waits),
        facts(
            (
                ("Verdicts", verdicts(progress, of_verdict) if progress.verdicts else ""),
                (
                    "Exchanges ended",
                    counted(progress.endings, {"refused": "warn"}) if failures else "",
                ),
                (
                    "Replays ended",
                    counted(progress.outcomes, {"completed": "plain"}) if progress.outcomes else "",
                ),
                ("Codes", counted(progress.codes) if progress.codes else ""),
            )
        ),
    )


def causes_of(batch_id: str, found: Sequence[CauseView]) -> Html | None:
    """Render the causes of differences with their counts and links to the replays."""
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
