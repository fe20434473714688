"""A regression as one page for a browser: what it shows, as JSON."""

from __future__ import annotations

import json
import shlex
from typing import Any

import msgspec

from reenact.diff.sequences import word_diff
from reenact.engine.divergence.model import Divergence, Gap
from reenact.errors import UsageError
from reenact.runs.regression.account import Account
from reenact.runs.regression.grouping import Group
from reenact.runs.regression.job import Job
from reenact.runs.regression.outcome import BAD, Outcome
from reenact.runs.regression.tally import Tally
from reenact.views.html.document import regress_page

__all__ = ["contents", "page"]

_ROOM = 16 * 1024 * 1024
"""Bytes of divergences in full; what comes after that is told in short."""
_COMPARED = 20_000
"""Characters of a text that is compared word by word."""


def page(account: Account, tally: Tally) -> str:
    """The document."""
    return regress_page("reenact regress", contents(account, tally))


def contents(account: Account, tally: Tally) -> dict[str, Any]:
    """Everything that the page knows."""
    writer = _Writer()
    return {
        "run": {**msgspec.to_builtins(account), "command": _command(account.job)},
        "counts": {name: tally.counts[name] for name in ("ok", *BAD, "known")},
        "notRun": account.total - len(tally),
        "work": round(sum(one.seconds for one in tally), 3),
        "groups": [writer.group(group) for group in tally.groups()],
        "ok": [_row(one) for one in tally if one.status == "ok"],
    }


class _Writer:
    def __init__(self) -> None:
        self._room = _ROOM

    def group(self, group: Group) -> dict[str, Any]:
        return {
            "id": group.id,
            "status": group.status,
            "cause": group.cause,
            "known": group.known,
            "rows": [_row(one) for one in group.outcomes],
            "full": [self._full(one) for one in group.outcomes if one.detail],
        }

    def _full(self, outcome: Outcome) -> dict[str, Any]:
        told: dict[str, Any] = {"recording": outcome.recording, "detail": outcome.detail}
        divergence = _divergence(outcome)
        if divergence is None or self._room < 0:
            return told
        told["divergence"] = {
            **divergence.to_json(),
            "paths": [_gap(gap) for gap in divergence.paths],
        }
        self._room -= len(json.dumps(told))
        return told


def _row(outcome: Outcome) -> list[Any]:
    """Name, seconds, calls that were served, and what is its own about it."""
    row = [outcome.recording, outcome.seconds, outcome.served]
    return [*row, outcome.gist] if outcome.gist else row


def _divergence(outcome: Outcome) -> Divergence | None:
    try:
        return None if outcome.divergence is None else Divergence.from_json(outcome.divergence)
    except UsageError:  # from a journal that a newer version has written
        return None


def _gap(gap: Gap) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(gap)
    one, other = gap.expected, gap.observed
    if isinstance(one, str) and isinstance(other, str) and len(one) + len(other) <= _COMPARED:
        told["words"] = word_diff(one, other)
    return told


def _command(job: Job) -> str:
    """What to say to do the same with one recording: ``RUN`` stands for it."""
    words = ["reenact", "regress", "RUN"]
    words += [] if job.policy is None else ["--policy", job.policy]
    for flag, said in (("--allow", job.allow), ("--boundary", job.boundaries)):
        words += [word for one in said for word in (flag, one)]
    if job.target is not None:
        words += ["--target", job.target]
    elif job.command:
        words += ["--", *job.command]
    return shlex.join(words)
