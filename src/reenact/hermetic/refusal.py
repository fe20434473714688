"""What the guard says and raises: a divergence in a replay, a warning while recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from reenact.engine.bounding import cut_text
from reenact.engine.divergence import Divergence, Seen
from reenact.engine.session import Session
from reenact.hermetic.addresses import text
from reenact.hermetic.origin import place
from reenact.hermetic.processes import Start
from reenact.hermetic.stacks import Stack
from reenact.policy.access import Access
from reenact.policy.capabilities import KNOWN

__all__ = ["Attempt", "Covered", "answer", "connection", "look_up", "process", "unseen"]

Covered = Callable[[], Sequence[str]]
"""The names of the clients that are covered."""

_LONGEST = 300
_MOST_WARNINGS = 10
_told: WeakKeyDictionary[Session, set[str]] = WeakKeyDictionary()
"""For which places a session has been warned."""

_LOST = "no boundary covers that, so it is not recorded, and a replay refuses it"


class Attempt(msgspec.Struct, frozen=True):
    """Something that the program does past every boundary.

    ``operation`` is what a rule of the policy names; ``does`` goes on after "the program",
    ``undone`` says what did not happen, ``lost`` what a recording lacks.
    """

    capability: str
    kind: str
    operation: str
    does: str
    undone: str
    lost: str
    advice: str = ""
    data: Any = None


def connection(where: str) -> Attempt:
    """A connection to ``where``."""
    return Attempt(
        capability="net.connect",
        kind="network",
        operation=where,
        does=f"connects to {where}",
        undone="nothing was sent",
        lost=_LOST,
    )


def look_up(host: Any, port: Any) -> Attempt:
    """The address of a name is asked for."""
    name = text(host)
    return Attempt(
        capability="net.connect",
        kind="network",
        operation=name if port is None else f"{name}:{text(port)}",
        does=f"looks up {name}",
        undone="nothing was sent",
        lost=_LOST,
    )


def process(start: Start) -> Attempt:
    """Another process is started."""
    return Attempt(
        capability="process.exec",
        kind="process",
        operation=start.name,
        does=f"starts the process {start.name}",
        undone="it was not started",
        lost=_LOST,
        advice="A Python process goes on with the recording below reenact run, unless it is started "
        "with -I, -E or -S or with an environment of its own.",
        data=start.written(),
    )


def unseen(stack: Stack) -> Attempt:
    """A library is imported whose connections no hook sees."""
    return Attempt(
        capability="net.connect",
        kind="network",
        operation=stack.module,
        does=f"imports {stack.name}",
        undone="no hook sees what it sends, so it was not imported",
        lost="no boundary covers it and no hook sees what it sends, so that is not recorded, and a "
        "replay refuses to import it",
        advice="reenact run --isolate lets it run where nothing that it sends gets out.",
    )


def answer(session: Session, attempt: Attempt, covered: Covered) -> None:
    """Return when the attempt may go on: a rule lets it, or it is being recorded, with a warning.

    Raises :class:`DivergenceError` in a replay, lenient or strict.
    """
    if session.mode == "replay":
        session.check_open()
    if _passes(session, attempt):
        return
    if session.mode != "replay":
        _warn(session, attempt)
        return
    with session.lock:
        found = session.machine.note(_divergence(session, attempt, covered))
        raise session.diverged(found)


def _warn(session: Session, attempt: Attempt) -> None:
    """Once for each place in the program, and not without end."""
    told = _told.setdefault(session, set())
    where = f"{attempt.capability} {place() or attempt.operation}"
    if where not in told and len(told) < _MOST_WARNINGS:
        told.add(where)
        session.warn(f"{_said(attempt)}: {attempt.lost}")


def _passes(session: Session, attempt: Attempt) -> bool:
    """Does the policy let it through? Then it is counted."""
    policy = session.settings.policy
    if policy.action_for(attempt.capability, attempt.operation) != "pass":
        return False
    access = Access(session.settings.pinned, KNOWN)
    if access.refusal(attempt.capability, attempt.kind, attempt.operation, 0) is not None:
        return False
    counted = session.redacted_text(f"{attempt.capability} {attempt.operation}")
    with session.lock:
        session.machine.passed[counted] += 1
    return True


def _said(attempt: Attempt) -> str:
    where = place()
    return f"the program {attempt.does}" + (f" ({where})" if where else "")


def _divergence(session: Session, attempt: Attempt, covered: Covered) -> Divergence:
    lane = session.lanes.current().name

    def clean(text: str) -> str:
        return cut_text(session.redacted_text(text), _LONGEST)

    return Divergence(
        code="event_unexpected",
        detail=clean(f"T{_said(attempt)[1:]}, which no boundary covers: {attempt.undone}."),
        lane=lane,
        observed=Seen(
            type="nondeterministic",
            operation=clean(f"{attempt.capability} {attempt.operation}"),
            lane=lane,
            data=None if attempt.data is None else clean(attempt.data),
        ),
        hint="\n".join(_hints(attempt, covered)),
        flags=["uncovered"],
    )


def _hints(attempt: Attempt, covered: Covered) -> list[str]:
    rule = f'{{"capability": "{attempt.capability}", "action": "pass"}}'
    return [
        *filter(None, [attempt.advice]),
        f"Covered are {', '.join(covered())}: record and replay with one of them, or add a "
        "boundary of your own.",
        f"To let it through unrecorded: --allow {attempt.capability}, or the rule {rule} with "
        '"allowPassthrough": true in the policy.',
    ]
