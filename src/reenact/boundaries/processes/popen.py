"""Processes started by ``subprocess.Popen``, live or as stand-ins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from reenact.boundaries.host.environment import known_environment
from reenact.boundaries.processes.injection import injected
from reenact.boundaries.processes.live_process import Recorded
from reenact.boundaries.processes.pipes import (
    Ends,
    Given,
    close_quietly,
    file_given,
    take_ends,
    watch,
    with_pipes,
)
from reenact.boundaries.processes.replayed_process import Replayed, as_stand_in
from reenact.boundaries.processes.transcript import load_account
from reenact.boundaries.processes.waits import communicate, poll, selector, wait
from reenact.engine.call import CAPABILITIES, Call, Decision, GoLive, Pass, Reexecute, Refuse, Serve
from reenact.engine.codecs import PLAIN_CODEC, error_fields
from reenact.engine.execution.stream_chunks import chunk_name
from reenact.engine.lanes import Lane
from reenact.engine.patches.patch import Installable, Patch
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.session.context import (
    OUTSIDE,
    enter_session,
    leave_session,
)
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.format.event import Data
from reenact.hermetic.process_starts import (
    START_EVENTS,
    is_covered_process,
    is_system_query,
    stand_in_process,
)

__all__ = [
    "execute_child",
    "popen_patches",
    "process_call",
]

_OURS = ("REENACT_", "PYTEST_")
"""Prefixes of variables in which Reenact and test runners describe the current run."""
_PYTHON = "python"


def process_call(
    args: Any,
    *,
    shell: bool,
    executable: Any,
    cwd: Any,
    environ: Mapping[Any, Any] | None,
    own: Mapping[str, str],
    stdin: Data | None = None,
) -> Call:
    """The call that starting a process is.

    The interpreter that runs the program is ``python`` wherever it lies; a folder inside the
    working directory is written as seen from there; of the environment only what differs from
    ``own``, the program's, counts. ``stdin`` stands for a file that is its standard input.
    """
    words = _words(args, shell=shell)
    if executable is not None:
        words = [_text(executable), *words[1:]]
    name = words[0] if words and isinstance(words[0], str) else ""
    request: Data = {"argv": words}
    if cwd is not None:
        request["cwd"] = _folder(cwd)
    changes = {} if environ is None else _changes(environ, own)
    if changes:
        request["env"] = changes
    if stdin is not None:
        request["stdin"] = stdin
    return Call(
        type="nondeterministic",
        capability=CAPABILITIES["process"],
        operation=os.path.basename(name),
        request=request,
        source="process",
        nests=True,
    )


def _words(args: Any, *, shell: bool) -> list[Any]:
    given = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
    if shell:
        return ["sh", "-c", *map(_text, given)]
    words = [_text(word) for word in given]
    if words and words[0] == sys.executable:
        words[0] = _PYTHON
    return words


def _text(word: Any) -> str | bytes:
    """Return a word as text, or as bytes if it is not valid UTF-8."""
    raw = os.fsencode(word)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _folder(cwd: Any) -> str | bytes:
    found = os.fsdecode(cwd)
    try:
        beside = os.path.relpath(found)
    except (OSError, ValueError):  # the working directory was deleted, or the path is empty
        return _text(cwd)
    return _text(found if beside.startswith(os.pardir) else beside)


def _changes(environ: Mapping[Any, Any], ours: Mapping[str, str]) -> Data:
    """Return the differences of ``environ`` from the program's own environment ``ours``."""
    given = {_name(name): _text(value) for name, value in environ.items()}
    own = {_name(name): _text(value) for name, value in ours.items()}
    new = {
        name: value
        for name, value in sorted(given.items())
        if own.get(name) != value and not name.startswith(_OURS)
    }
    gone = [name for name in sorted(own) if name not in given and not name.startswith(_OURS)]
    changes: Data = {"set": new} if new else {}
    if len(gone) > len(own) // 2:  # built from nothing: the kept names are the shorter list
        kept = set(own).intersection(given).difference(new)
        changes["kept"] = sorted(name for name in kept if not name.startswith(_OURS))
    elif gone:
        changes["unset"] = gone
    return changes


def _name(name: Any) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


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
        environ = None if given["env"] is os.environ else given["env"]  # same content
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
            # Its output is delivered when it arrives, not in the recorded order.
            session.scheduler.skip(
                *((entry.lane, chunk_name(entry.position, number)) for number in turns)
            )
        self._leave(opened.inner)
        self._original(self._injected(self._given, opened.inner))

    def _leave(self, lane: str | None) -> None:
        """Mark ``lane`` as the lane of a child process."""
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
            with self._session.scheduler.thread_starts():  # the duration depends on the machine
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
        if not relay.by_loop:  # a loop reads the pipes itself
            watch(self._process, relay)
        relay.start(self._process.pid)

    def _start_stand_in(self, ends: Ends) -> int:
        """Start the stand-in. Return the pipe that controls how it ends."""
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


def popen_patches(module: ModuleType) -> list[Installable]:
    """The patches of the module ``subprocess``."""
    popen: Any = module.Popen
    expired = module.TimeoutExpired
    return [
        Patch(popen, "_execute_child", execute_child),
        Patch(popen, "poll", poll),
        Patch(popen, "_wait", lambda original: wait(original, expired)),
        Patch(popen, "_communicate", lambda original: communicate(original, expired)),
        Patch(module, "_PopenSelector", selector),
    ]
