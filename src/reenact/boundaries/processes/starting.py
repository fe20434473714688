"""Starting a process: really, or a stand-in for the one that was recorded."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from reenact.boundaries.host.environment import known_environment
from reenact.boundaries.processes.account import load_account
from reenact.boundaries.processes.asked import process_call
from reenact.boundaries.processes.descriptors import close_quietly
from reenact.boundaries.processes.ends import Ends, Given, file_given, take_ends, with_pipes
from reenact.boundaries.processes.injection import injected
from reenact.boundaries.processes.reading import watch
from reenact.boundaries.processes.recorded import Recorded
from reenact.boundaries.processes.replayed import Replayed
from reenact.boundaries.processes.stand_in import as_stand_in
from reenact.engine.call import Decision, GoLive, Pass, Reexecute, Refuse, Serve
from reenact.engine.codecs import PLAIN_CODEC, error_fields
from reenact.engine.execution.stream_chunks import chunk_name
from reenact.engine.lanes import Lane
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.hermetic.process_starts import (
    START_EVENTS,
    is_covered_process,
    is_system_query,
    stand_in_process,
)

__all__ = ["execute_child"]

_DEEP = 10
"""Frames from asyncio to here, at most."""


def execute_child(original: Callable[..., None]) -> Callable[..., None]:
    """``Popen._execute_child``."""
    names = _parameters(original)

    def started(self: Any, *args: Any, **kwargs: Any) -> None:
        session = current()
        if session is None or not session.is_active or is_system_query():
            original(self, *args, **kwargs)
            return
        given = dict(zip(names, args, strict=False)) | kwargs
        _Starting(session, self, given, lambda given: original(self, **given)).start()

    return started


def _parameters(function: Any) -> tuple[str, ...]:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    names: tuple[str, ...] = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    return names


class _Starting:
    """One process that the program starts."""

    def __init__(
        self, session: Session, process: Any, given: Given, original: Callable[[Given], None]
    ) -> None:
        self._session = session
        self._process = process
        self._given = given
        self._original = original

    def start(self) -> None:
        given = self._given
        environ = None if given["env"] is os.environ else given["env"]  # it says the same
        call = process_call(
            given["args"],
            shell=given["shell"],
            executable=given["executable"],
            cwd=given["cwd"],
            environ=environ,
            own={} if environ is None else known_environment(self._session),
            stdin=file_given(given, self._session.suspects),
        )
        decision, opened = self._session.decisions.decide(call, blocks=False)
        self._carry_out(decision, opened)

    def _carry_out(self, decision: Decision, opened: InFlightCall) -> None:
        if isinstance(decision, Serve):
            self._stand_in(decision, opened)
        elif isinstance(decision, GoLive):
            self._record(opened)
        elif isinstance(decision, Pass):
            self._pass(opened, inside=decision.inside)
        elif isinstance(decision, Reexecute):
            self._run_again(decision, opened)
        else:
            assert isinstance(decision, Refuse)
            self._session.gateway.refuse(opened, decision)

    # Really

    def _record(self, opened: InFlightCall) -> None:
        session = self._session
        with session.lock:
            session.recorder.tell_run()  # before anything that the process itself writes
        given = self._injected(self._given, opened.inner)
        ends = take_ends(given, self._devnull)
        pipes = with_pipes(given, ends)
        try:
            self._outside(pipes.given)
        except BaseException as error:
            pipes.close()
            ends.close()
            session.in_flight.begin(opened)
            fields = error_fields(opened.call, PLAIN_CODEC.dump_error(opened.call, error))
            session.in_flight.complete(
                opened, session.recorder.completing(opened, {**fields, "instant": True})
            )
            raise
        finally:
            close_quietly(pipes.theirs)
        relay = Recorded(
            session,
            opened,
            outputs=pipes.outputs,
            targets=ends.targets,
            seen=ends.seen,
            source=ends.source,
            sink=pipes.sink,
            by_loop=_is_asyncios(),
        )
        self._begin(relay)

    def _pass(self, opened: InFlightCall, *, inside: bool) -> None:
        """Recorded is nothing of it; a Python takes part all the same, where it is in a session, in
        the lane that it has when it is recorded: there is what it did."""
        if not inside:
            self._leave(opened.inner)
            self._outside(self._injected(self._given, opened.inner))
            return
        self._original(self._injected(self._given, self._free_lane()))

    def _run_again(self, decision: Reexecute, opened: InFlightCall) -> None:
        """The process does itself what is in its lane."""
        session, entry = self._session, decision.entry
        assert opened.inner is not None
        if not self._takes_part(opened.inner):
            self._stand_in(Serve(entry), opened)  # what it did cannot be given to it again
            return
        _, data = session.in_flight.claim(opened, entry, stub=False)
        if data is not None and data.get("error") is None:
            account = load_account(data.get("response"), f"event {entry.seq}")
            turns = range(len(account.turns))
            # What it says this time comes by the clock.
            session.scheduler.skip(
                *((entry.lane, chunk_name(entry.position, number)) for number in turns)
            )
        self._leave(opened.inner)
        self._original(self._injected(self._given, opened.inner))

    def _leave(self, lane: str | None) -> None:
        """What is in ``lane`` is the business of the process."""
        if lane is not None:
            with self._session.lock:
                self._session.children.was_forked(Lane(lane))

    def _takes_part(self, lane: str) -> bool:
        given = self._injected(self._given, lane)
        words = ["sh", "-c"] if given["shell"] else given["args"]
        executable = None if given["shell"] else given["executable"]
        return is_covered_process(
            START_EVENTS["subprocess.Popen"](executable, words, None, given["env"])
        )

    def _free_lane(self) -> str:
        session = self._session
        with session.lock:
            lane = session.children.spawn()
            session.children.was_forked(lane)
        return lane.name

    def _injected(self, given: Given, lane: str | None) -> Given:
        environ = os.environ if given["env"] is None else given["env"]
        found = None if lane is None else injected(environ, lane)
        return given if found is None else {**given, "env": found}

    def _outside(self, given: Given) -> None:
        token = enter_session(OUTSIDE)
        try:
            with self._session.scheduler.thread_starts():  # it takes as long as the machine wants
                self._original(given)
        finally:
            leave_session(token)

    # A stand-in

    def _stand_in(self, decision: Serve, opened: InFlightCall) -> None:
        session, entry = self._session, decision.entry
        _, data = session.in_flight.claim(opened, entry)
        data = data or {}
        if opened.spans:
            opened.entry, opened.answer = entry, data
        else:
            session.in_flight.keep(opened, data)
        error = None
        if data.get("error") is not None:
            error = PLAIN_CODEC.load_error(opened.call, data["error"])
            if "response" not in data:
                session.in_flight.complete(opened, data)
                raise error
        account = load_account(data.get("response"), f"event {entry.seq}")
        ends = take_ends(self._given, self._devnull)
        control = self._start_stand_in(ends)
        relay = Replayed(
            session,
            opened,
            entry,
            account,
            ends=ends,
            control=control,
            by_loop=_is_asyncios(),
            error=error,
        )
        self._begin(relay)

    def _begin(self, relay: Recorded | Replayed) -> None:
        if not relay.by_loop:  # a loop reads by itself
            watch(self._process, relay)
        relay.start(self._process.pid)

    def _start_stand_in(self, ends: Ends) -> int:
        """The end of the pipe that tells it how to end."""
        theirs, control = os.pipe()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            with stand_in_process():
                self._outside(as_stand_in(self._given, theirs, nowhere))
        except BaseException:
            ends.close()
            os.close(control)
            raise
        finally:
            close_quietly([theirs, nowhere])
        return control

    @property
    def _devnull(self) -> int | None:
        return getattr(self._process, "_devnull", None)


def _is_asyncios() -> bool:
    """Is this process started by a loop?"""
    frame: Any = sys._getframe(1)
    for _ in range(_DEEP):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") == "asyncio.unix_events":
            return True
        frame = frame.f_back
    return False
