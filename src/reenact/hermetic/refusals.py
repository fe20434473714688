"""Refusals of the guard: a divergence in a replay, a warning while recording.

The guard loads this module with the first attempt that it refuses or warns about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from reenact.engine.divergence.excerpts import truncate_text
from reenact.engine.divergence.model import Divergence, Seen
from reenact.engine.session.session import Session
from reenact.errors import CapabilityDenied, SessionClosed
from reenact.hermetic.call_origin import acting_library, source_location
from reenact.hermetic.endpoints import text
from reenact.hermetic.handoffs import HandOff, current_handoff
from reenact.hermetic.network_libraries import NetworkLibrary
from reenact.hermetic.process_starts import ProcessStart
from reenact.policy.access import KNOWN, Access
from reenact.policy.drivers import driver_named

__all__ = [
    "Attempt",
    "Covered",
    "answer",
    "bytes_left",
    "connection",
    "file_change",
    "handing_over",
    "look_up",
    "passes",
    "process",
    "report_sent",
    "sending",
    "statement",
    "unforked",
    "unseen",
]

Covered = Callable[[], Sequence[str]]
"""The names of the clients that are covered."""

_LONGEST = 300
_MOST_WARNINGS = 10
_told: WeakKeyDictionary[Session, set[str]] = WeakKeyDictionary()
"""For which places a session has been warned."""

_LOST = "no boundary covers that, so it is not recorded, and a replay refuses it"


class Attempt(msgspec.Struct, frozen=True):
    """An action of the program that no boundary covers.

    ``operation`` is the name in a rule of the policy. ``does`` continues the sentence "the program
    …". ``undone`` is the prevented effect, and ``lost`` the part that a recording lacks.
    """

    capability: str
    kind: str
    operation: str
    does: str
    undone: str
    lost: str
    advice: str = ""
    data: Any = None
    driver: str = ""
    """The name of the driver, under which it can be allowed."""
    target: str = ""
    """Target of the action, if ``operation`` is something else. A rule can name either."""
    counts: bool = True
    """Is it counted when it is allowed? A send is not, if its statement was."""
    because: str = "which no boundary covers"
    hints: tuple[str, ...] = ()
    """Advice, if it differs from the usual one."""
    always: bool = False
    """Is it refused in every mode, and not only in a replay?"""


def connection(where: str) -> Attempt:
    """A connection to ``where``."""
    driver = driver_named(acting_library())
    return Attempt(
        capability="net.connect",
        kind="network",
        operation=where,
        does=f"connects to {where}" + ("" if driver is None else f" through {driver.name}"),
        undone="nothing was sent",
        lost=_LOST,
        driver="" if driver is None else driver.name,
    )


def sending(where: str, *, counted: Collection[str] = ()) -> Attempt:
    """Bytes are sent to ``where`` on a connection that was opened before. ``counted`` are drivers
    whose statements are checked as well."""
    found = acting_library()
    driver = driver_named(found)
    return Attempt(
        capability="net.connect",
        kind="network",
        operation=where,
        does=f"sends to {where} on an open connection" + (f" through {found}" if found else ""),
        undone="nothing was sent",
        lost=_LOST,
        driver="" if driver is None else driver.name,
        counts=driver is None or driver.name not in counted,
    )


def statement(driver: str, command: str, target: str) -> Attempt:
    """A driver sends ``command`` to ``target``."""
    known = driver_named(driver)
    is_file = known is not None and known.sends == "file"
    to = f" to {target}" if target else ""
    return Attempt(
        capability="fs.write" if is_file else "net.connect",
        kind="fs" if is_file else "network",
        operation=driver,
        does=f"sends {command!r}{to} through {driver}",
        undone="nothing was sent" if not is_file else "nothing was read or written",
        lost=f"statements of {driver} are not recorded, and a replay refuses them unless they are "
        f"allowed (--allow {driver})",
        data=command,
        driver=driver,
        target=target,
    )


def bytes_left(where: str, count: int) -> Attempt:
    """Bytes have left through a connection that was opened before, past every check."""
    return Attempt(
        capability="net.connect",
        kind="network",
        operation=where,
        does=f"has sent {count:,} bytes to {where} on an open connection, in C or through its "
        "descriptor",
        undone="this was found by the byte counter of the socket, after they had left",
        lost="",
        advice="reenact run --isolate keeps such bytes from leaving.",
    )


def look_up(host: Any, port: Any) -> Attempt:
    """The address of a name is asked for."""
    name = text(host)
    driver = driver_named(acting_library())
    return Attempt(
        capability="net.connect",
        kind="network",
        operation=name if port is None else f"{name}:{text(port)}",
        does=f"looks up {name}",
        undone="nothing was sent",
        lost=_LOST,
        driver="" if driver is None else driver.name,
        counts=False,
    )


def file_change(path: str, does: str, folder: str) -> Attempt:
    """A file is changed outside the scratch folders of the session. ``folder`` is where it is."""
    return Attempt(
        capability="fs.write",
        kind="fs",
        operation=path,
        does=does,
        undone="no file was changed",
        lost="",
        because="outside the scratch folders of this replay",
        hints=(
            f'To allow files in this folder in replays: Agent(…, scratch=["{folder}"])',
            'To allow files everywhere: Agent(…, files="allow")',
        ),
        always=True,
    )


def process(start: ProcessStart) -> Attempt:
    """Another process is started."""
    return Attempt(
        capability="process.exec",
        kind="process",
        operation=start.name,
        does=f"starts the process {start.name}",
        undone="it was not started",
        lost=_LOST,
        advice="Under reenact run, a Python process continues the recording, unless it is started with -I, "
        "-E or -S or with its own environment.",
        data=start.written(),
    )


def unforked() -> Attempt:
    """A process of multiprocessing is started that is not forked."""
    return Attempt(
        capability="process.exec",
        kind="process",
        operation="multiprocessing",
        does="starts a process of multiprocessing that is not forked",
        undone="it was not started",
        lost=_LOST,
        because="which is in no session",
        hints=(_passing("multiprocessing"),),
        always=True,
    )


def _passing(operation: str) -> str:
    rule = f'{{"capability": "process.exec", "operation": "{operation}", "action": "pass"}}'
    return f'To let it work for real: the rule {rule} with "allowPassthrough": true in the policy.'


def handing_over(does: str, processes: str, operation: str) -> Attempt:
    """Work is handed to ``processes``, which are not in the session."""
    return Attempt(
        capability="process.exec",
        kind="process",
        operation=operation,
        does=f"{does} for {processes}",
        undone="nothing was handed over",
        lost=_LOST,
        because="not started in the session",
        hints=(
            "Start the processes inside the session, or run the program with reenact run, where every "
            "process is in the replay.",
            _passing(operation),
        ),
        always=True,
    )


def unseen(stack: NetworkLibrary) -> Attempt:
    """A library is imported whose connections no hook sees."""
    driver = driver_named(stack.module)
    return Attempt(
        capability="net.connect",
        kind="network",
        operation=stack.module,
        does=f"imports {stack.name}",
        undone="no hook sees what it sends, so it was not imported",
        lost="no boundary covers it and no hook sees what it sends, so that is not recorded, and a "
        "replay refuses to import it",
        advice="reenact run --isolate lets it run where nothing that it sends gets out.",
        driver="" if driver is None else driver.name,
        counts=False,
    )


def answer(session: Session, attempt: Attempt, covered: Covered) -> None:
    """Return if the attempt is allowed by a rule, or is recorded with a warning.

    Raises :class:`DivergenceError` in a replay, lenient or strict. A worker outside the session
    that acts for it gets :class:`CapabilityDenied`, because the divergence belongs to the session
    and the worker has other work. After the end of the session it gets :class:`SessionClosed`.
    """
    worker = current_handoff()
    acts_outside = worker is not None and worker.session is session
    if acts_outside and not session.is_active:
        if not _is_refused(session, attempt):
            return
        session.warn_once(
            f"{_said(attempt, _whose(worker))} after the end of the replay: {attempt.undone}"
        )
        raise SessionClosed(
            "the replay for which this worker acts has ended",
            hint="wait for workers before the session ends",
        )
    if session.mode == "replay" and not acts_outside:
        session.check_open()
    if passes(session, attempt):
        return
    if not _is_refused(session, attempt):
        _warn(session, attempt)
        return
    with session.lock:
        found = session.machine.note(_divergence(session, attempt, covered, worker))
        error = session.reporter.diverged(found)
    if not acts_outside:
        raise error
    raise CapabilityDenied(
        found.detail, hint=found.hint.splitlines()[-1], capability=attempt.capability
    )


def _is_refused(session: Session, attempt: Attempt) -> bool:
    if session.mode == "replay" or attempt.always:
        return True
    return bool(attempt.driver) and session.settings.refuses_drivers


def report_sent(session: Session, attempt: Attempt, covered: Covered) -> None:
    """Note a divergence for what has happened already. A strict session fails at its end."""
    with session.lock:
        session.reporter.diverged(
            session.machine.note(_divergence(session, attempt, covered, None))
        )


def _warn(session: Session, attempt: Attempt) -> None:
    """Once for each place in the program, or for each driver, and not without end."""
    told = _told.setdefault(session, set())
    where = f"{attempt.capability} {attempt.driver or source_location() or attempt.operation}"
    if where not in told and len(told) < _MOST_WARNINGS:
        told.add(where)
        session.warn(f"{_said(attempt)}: {attempt.lost}")


def passes(session: Session, attempt: Attempt) -> bool:
    """Is it allowed, by the name of its driver or by a rule of the policy? Then it is counted."""
    named = attempt.driver and attempt.driver in session.settings.allowed_drivers
    if not named and not _is_let_by_rule(session, attempt):
        return False
    if attempt.counts or not named:
        what = attempt.driver if named else attempt.operation
        counted = session.redacted_text(f"{attempt.capability} {what}")
        with session.lock:
            session.machine.passed[counted] += 1
    return True


def _is_let_by_rule(session: Session, attempt: Attempt) -> bool:
    policy, access = session.settings.policy, Access(session.settings.pinned, KNOWN)
    return any(
        policy.action_for(attempt.capability, operation) == "pass"
        and access.refusal(attempt.capability, attempt.kind, operation, 0) is None
        for operation in (attempt.operation, attempt.target)
        if operation
    )


def _said(attempt: Attempt, who: str = "the program") -> str:
    where = source_location()
    return f"{who} {attempt.does}" + (f" ({where})" if where else "")


def _divergence(
    session: Session, attempt: Attempt, covered: Covered, worker: HandOff | None
) -> Divergence:
    lane = session.lanes.root.name if worker is not None else session.lanes.current().name

    def clean(text: str) -> str:
        return truncate_text(session.redacted_text(text), _LONGEST)

    return Divergence(
        code="event_unexpected",
        detail=clean(f"{_said(attempt, _whose(worker))}, {attempt.because}: {attempt.undone}."),
        lane=lane,
        observed=Seen(
            type="nondeterministic",
            operation=clean(f"{attempt.capability} {attempt.operation}"),
            lane=lane,
            data=None if attempt.data is None else clean(attempt.data),
        ),
        hint="\n".join(_hints(session, attempt, covered)),
        flags=["uncovered"],
    )


def _whose(worker: HandOff | None) -> str:
    if worker is None:
        return "The program"
    return f"The worker {worker.worker}, {worker.does},"


def _hints(session: Session, attempt: Attempt, covered: Covered) -> list[str]:
    if attempt.hints:
        return list(attempt.hints)
    if attempt.driver and session.settings.refuses_drivers:
        declared = f'drivers={{"{attempt.driver}": "allow"}}'
        return [f"To execute the statements of {attempt.driver} in replays: Agent(…, {declared})"]
    rule = f'{{"capability": "{attempt.capability}", "action": "pass"}}'
    if attempt.driver:
        rule = f'{{"capability": "{attempt.capability}", "operation": "{attempt.operation}", "action": "pass"}}'
    return [
        *filter(None, [attempt.advice]),
        f"Covered are {', '.join(covered())}: record and replay with one of them, or add a "
        "boundary of your own.",
        f"To let it through unrecorded: --allow {attempt.driver or attempt.capability}, or the rule "
        f'{rule} with "allowPassthrough": true in the policy.',
    ]
