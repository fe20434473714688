"""A regression as text."""

from __future__ import annotations

from collections.abc import Iterator

from reenact.cli.render import count, escape_controls
from reenact.runs.regression.account import Account
from reenact.runs.regression.grouping import Group
from reenact.runs.regression.outcome import BAD
from reenact.runs.regression.tally import Tally

__all__ = ["lines", "summary"]

_LISTED = 5
_WAYS = {"interrupted": "interrupted", "stopped": "stopped at the first that went wrong"}


def lines(tally: Tally) -> Iterator[str]:
    """What went wrong, by cause; the first of each in full. Nothing when nothing did."""
    for group in tally.groups():
        yield from _group(group)
        yield ""


def _group(group: Group) -> Iterator[str]:
    known = ", known" if group.known else ""
    yield f"{count(len(group.outcomes), 'recording')} {group.status}{known}: {escape_controls(group.cause)}"
    for one in group.outcomes[:_LISTED]:
        yield f"  {escape_controls(one.recording)}"
    if len(group.outcomes) > _LISTED:
        yield f"  and {len(group.outcomes) - _LISTED:,} more"
    if not group.known and group.outcomes[0].detail:
        yield ""
        for line in group.outcomes[0].detail.splitlines():
            yield f"    {escape_controls(line)}".rstrip()


def summary(account: Account, tally: Tally) -> str:
    """One line; another one when not all were re-enacted."""
    found = tally.counts
    told = ", ".join(f"{found[name]:,} {name}" for name in ("ok", *BAD, "known") if found[name])
    line = f"reenact: {count(len(tally), 'recording')}: {told or 'nothing to do'}"
    left = account.total - len(tally)
    if account.ended == "complete" or not left:
        return line
    return f"{line}\nreenact: {_WAYS[account.ended]}: {count(left, 'recording')} not re-enacted"
