"""After a replay of several processes: which recorded calls none of them made."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reenact.engine.call import DRAWS, SLEEP, Entry
from reenact.engine.decision.usage_ledger import UsageLedger
from reenact.engine.divergence.model import Divergence
from reenact.engine.divergence.text_renderer import render_divergence
from reenact.engine.session.factory import make_comparer, make_machine, make_script, open_resources
from reenact.engine.session.settings import Settings

__all__ = ["Leftovers", "counted", "left_before", "look_for"]

_SHOWN = 20


class Leftovers(msgspec.Struct, frozen=True):
    """``served`` calls and ``draws`` values of ``lanes`` lanes were used; ``first`` are the first of
    ``unused`` that were not."""

    served: int = 0
    draws: int = 0
    lanes: int = 0
    unused: int = 0
    first: list[Divergence] = msgspec.field(default_factory=list)


def look_for(settings: Settings, ledger: UsageLedger) -> Leftovers:
    """What the recording of ``settings`` still holds, given what all processes have used."""
    parts = open_resources(settings)
    try:
        script = make_script(settings, parts, None)
        assert script is not None
        machine = make_machine(settings, parts, make_comparer(settings, parts), script)
        for lane in ledger.stubbed():
            script.stub(lane)
        used = [entry for entry in machine.unused() if ledger.is_used(entry.seq)]
        for entry in used:
            script.take(entry)
        for lane in list(script.stopped):
            script.stub(lane)  # how far it came is a matter of chance
        first, unused = machine.left_over(_SHOWN)
        calls, draws = counted(used)
        return Leftovers(calls, draws, len({entry.lane for entry in used}), unused, first)
    finally:
        parts.close()


def left_before(settings: Settings, ledger: UsageLedger, cut: int) -> list[str]:
    """The recorded calls before ``cut``, where a run was forked, that no process made: in words."""
    whole = msgspec.structs.replace(settings, fork=None, into=None)
    parts = open_resources(whole)
    try:
        script = make_script(whole, parts, None)
        assert script is not None
        machine = make_machine(whole, parts, make_comparer(whole, parts), script)
        for lane in ledger.stubbed():
            script.stub(lane)
        left = [one for one in machine.unused() if one.seq < cut and not ledger.is_used(one.seq)]
        return [
            render_divergence(machine.unmade(one)) for one in left if one.lane not in script.stopped
        ]
    finally:
        parts.close()


def counted(entries: Iterable[Entry]) -> tuple[int, int]:
    """How many calls they are, and how many values that the program drew."""
    calls = draws = 0
    for entry in entries:
        if entry.kind in DRAWS:
            draws += entry.count
        elif entry.kind != SLEEP:
            calls += 1
    return calls, draws
