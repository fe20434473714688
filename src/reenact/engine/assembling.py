"""What decides, put together for one session."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, cast

from reenact.engine.late import Late
from reenact.engine.letting import let_by
from reenact.engine.machine import Machine
from reenact.engine.opening import Opened
from reenact.engine.script import Events, Script
from reenact.engine.settings import READS, Settings
from reenact.engine.ways import Ways
from reenact.format.event import Data, Event
from reenact.policy.access import Access
from reenact.policy.capabilities import KNOWN
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction import Redactor

if TYPE_CHECKING:
    from reenact.engine.diagnosis import Diagnosis
    from reenact.store.source import SeekableSource

__all__ = ["make_comparer", "make_machine", "make_script"]


def make_comparer(settings: Settings, parts: Opened) -> Comparer:
    """Compares as the policy says. Raises :class:`PolicyInvalid` for a rule it cannot read."""
    policy = settings.policy
    rules = Rules(
        ignore_paths=policy.ignore.paths,
        ignore_headers=policy.ignore.headers,
        ignore_query=policy.ignore.query,
        volatile=policy.volatile,
    )
    return _comparer(rules, parts.redactor)


@lru_cache(maxsize=4)
def _comparer(rules: Rules, redactor: Redactor) -> Comparer:
    """An app opens a session for each request, and its rules and its redactor stay the same."""
    return Comparer(rules, redactor)


def make_script(
    settings: Settings, parts: Opened, lane: str | None, events: Events | None = None
) -> Script | None:
    """What was recorded, in modes that read; with ``lane`` only what is under it, of ``events`` if
    they are known."""
    if parts.source is None or settings.mode not in READS:
        return None
    by_lane = settings.policy.match != "transcript"
    script = Script(
        events or parts.source,
        by_lane=by_lane,
        ledger=settings.ledger,
        whole=_restoring(parts.source, parts),
        let_by=let_by(settings.policy) if settings.mode == "replay" else None,
    )
    if lane is not None:
        script.keep_to(lane)
    if parts.branch is not None:
        script.order.limit = parts.branch.point.cut
    return script


def _restoring(source: SeekableSource, parts: Opened) -> Callable[[Event], Data]:
    def data_of(event: Event) -> Data:
        data = event.data
        return source.restored(event, parts.seal).data if "redacted" in data else data

    return data_of


def make_machine(
    settings: Settings, parts: Opened, comparer: Comparer, script: Script | None
) -> Machine:
    """The machine that decides about the calls of a session."""
    make: Callable[..., Machine] = Machine
    if parts.branch is not None:
        from reenact.engine.branch_machine import BranchMachine

        make = partial(BranchMachine, parts.branch.point, parts.branch.live)
    return make(
        settings.mode,
        settings.policy,
        Access(settings.pinned, KNOWN),
        comparer,
        _late_diagnosis(comparer, parts.redactor, settings.ways),
        script=script,
        strict=settings.strict or parts.branch is not None,
        only=settings.only,
    )


def _late_diagnosis(comparer: Comparer, redactor: Redactor, ways: Ways) -> Diagnosis:
    """Few replays diverge: what explains a divergence is loaded with the first one."""

    def make() -> Diagnosis:
        from reenact.engine.diagnosis import Diagnosis

        return Diagnosis(comparer, redactor, ways)

    return cast("Diagnosis", Late(make))
