"""Refusal of work that a replayed session hands to processes outside it.

A process that was started before the session, or by another part of the program, is not in it:
its actions are neither served nor refused. So handing work to it is refused, in the thread that
does so and before anything is handed over:

- a job, where it is submitted: some worker of the pool or executor is outside
- an item of a queue or a message of a connection, where it is put or sent: a process outside can
  read the other end
- text for the standard input of a program, where it is written: a child outside reads the pipe,
  and this process does not

::

    submit, apply, map, put, send ──> is a receiver outside? ──yes──> refused
                                                             ──no───> original

No lock is taken here, and none of ``multiprocessing`` is held when a refusal is raised. Pools and
executors use queues and connections of their own: those are not checked, because the job has been
checked. Threads that move items (the feeder of a queue, the handlers of a pool) are in no
session.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from types import FrameType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from reenact._system import process_id
from reenact.engine.patches.patch import DeferredPatches, Installable, Patch
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.hermetic.call_origin import code_kind
from reenact.hermetic.endpoints import descendants, program_of, receivers, running_processes
from reenact.hermetic.handoffs import handing_session

__all__ = ["ProcessHandoffs"]

_LIBRARY: Final = os.path.dirname(threading.__file__)
_PACKAGE: Final = os.path.join(_LIBRARY, "multiprocessing") + os.sep
_POOLS: Final = (
    os.path.join(_PACKAGE, "pool.py"),
    os.path.join(_LIBRARY, "concurrent", "futures", "process.py"),
)
"""Files of pools, whose own queues carry jobs that have been checked, results and wake-ups."""

_OPERATION: Final = "multiprocessing"
_STANDARD: Final = (1, 2)

_EXECUTORS: Final = (
    "concurrent.futures.process",
    "loky.process_executor",
    "joblib.externals.loky.process_executor",
)
"""Modules with a ``ProcessPoolExecutor``. One that is refused later, in the thread that manages it, would
leave its futures without a result."""

_HOUSEKEEPING: Final = frozenset({"_feed", "_incref", "_decref", "_finalize_manager"})
"""Functions of ``multiprocessing`` that send what was checked before, or that count references. The
garbage collector calls them in any thread."""


class _Outside:
    """The processes outside one session, by their numbers."""

    __slots__ = ("connections", "pids", "pipes", "settled")

    def __init__(self) -> None:
        self.pids = (running_processes() or _relatives()) - {process_id()}
        self.settled: set[int] = set()
        """Inodes of pipes and sockets that no process outside can read."""
        self.pipes: set[int] = set()
        """Inodes of pipes that no program outside is fed with."""
        self.connections: WeakSet[Any] = WeakSet()
        """Connections created inside, for systems that do not report their readers."""

    def started(self, pid: int, *, inside: bool) -> None:
        """A process was started while the session is open."""
        if inside:
            self.pids.discard(pid)  # the number of one that has ended
        else:
            self.pids.add(pid)
            self.settled.clear()  # a fork can read what its parent can
            self.pipes.clear()


def _relatives() -> set[int]:
    """The children of this process, and its parent, as far as ``multiprocessing`` has started them."""
    module = sys.modules.get("multiprocessing.process")
    if module is None:
        return set()
    above = module.parent_process()
    children = {pid for child in list(module._children) if (pid := _pid(child)) is not None}
    return children if above is None else {*children, above.pid}


def _pid(process: Any) -> int | None:
    """The number of ``process``, None if it is not running."""
    popen = getattr(process, "_popen", None)
    return None if popen is None else popen.pid


_sessions: Final[WeakKeyDictionary[Session, _Outside]] = WeakKeyDictionary()
_here = threading.local()
"""``put``: the connection on which this thread puts an item that has been checked."""


class ProcessHandoffs:
    """The patches that check what is handed to other processes.

    ``refuse(session, does, names, operation)`` is called with what the program does, the processes
    outside that would get it, and what a rule of the policy calls it. It raises unless that is allowed. ``receivers`` returns who of some
    processes can read what is sent through a descriptor, None if that is unknown.
    """

    def __init__(
        self,
        refuse: Callable[[Session, str, str, str], None],
        receivers: Callable[[int, Collection[int]], set[int] | None] = receivers,
    ) -> None:
        self._refuse = refuse
        self._receivers = receivers
        self.patches: list[Installable] = [
            DeferredPatches("multiprocessing.process", self._process_patches),
            DeferredPatches("multiprocessing.connection", self._connection_patches),
            DeferredPatches("multiprocessing.queues", self._queue_patches),
            DeferredPatches("multiprocessing.pool", self._pool_patches),
            *(DeferredPatches(name, self._executor_patches) for name in _EXECUTORS),
        ]

    def opened(self, session: Session) -> None:
        """Every other process that runs now is outside ``session``."""
        contains = session.mode == "replay" or session.settings.refuses_drivers
        if contains and not session.settings.whole_process:
            _sessions[session] = _Outside()

    # Checks

    def _check_workers(self, does: str, workers: Iterable[Any]) -> None:
        session = handing_session()
        outside = None if session is None else _sessions.get(session)
        if session is None or outside is None:
            return
        found = outside.pids & {pid for one in workers if (pid := _pid(one)) is not None}
        if found:
            self._refuse(session, does, _names(found), _OPERATION)

    def _check_connection(self, does: str, connection: Any) -> None:
        session = handing_session()
        outside = None if session is None else _sessions.get(session)
        if session is None or outside is None or _is_plumbing():
            return
        if connection.closed:
            return  # the original raises
        fd = connection.fileno()
        inode = os.fstat(fd).st_ino
        if inode in outside.settled:
            return
        found = self._receivers(fd, outside.pids)
        if found is None:
            inside = connection in outside.connections
            found = set() if inside else outside.pids & _relatives()
        if found:
            self._refuse(session, does, _names(found), _OPERATION)
        else:
            outside.settled.add(inode)

    def check_pipe(self, fd: int) -> None:
        """Check a write to the pipe ``fd``. Standard output and error are never refused."""
        session = handing_session()
        outside = None if session is None else _sessions.get(session)
        if fd in _STANDARD or session is None or outside is None:
            return
        inode = os.fstat(fd).st_ino
        if inode in outside.pipes:
            return
        if _is_of_package():
            return  # it is checked as a connection, or is for a process that counts resources
        own = process_id()
        found = descendants(own, self._receivers(fd, outside.pids) or ())
        # A pipe that this process reads itself wakes one of its threads. Its forks can read it, too.
        if found and not self._receivers(fd, {own}):
            program = next(filter(None, map(program_of, sorted(found))), "")
            self._refuse(session, f"writes to a pipe of {program}", _names(found), program)
        else:
            outside.pipes.add(inode)

    # Patches

    def _process_patches(self, module: ModuleType) -> list[Installable]:
        return [Patch(module.BaseProcess, "start", _starting)]

    def _connection_patches(self, module: ModuleType) -> list[Installable]:
        check = self._check_connection

        def sending(original: Callable[..., None]) -> Callable[..., None]:
            @wraps(original)
            def _send_bytes(self: Any, *args: Any, **kwargs: Any) -> None:
                if getattr(_here, "put", None) is not self:
                    check(f"sends on a {type(self).__name__} of multiprocessing", self)
                original(self, *args, **kwargs)

            return _send_bytes

        # Every way to send ends in ``_send_bytes``, also a method that was bound before the session.
        kind = module.Connection
        return [Patch(kind, "__init__", _making), Patch(kind, "_send_bytes", sending)]

    def _queue_patches(self, module: ModuleType) -> list[Installable]:
        check = self._check_connection

        def putting(original: Callable[..., None]) -> Callable[..., None]:
            @wraps(original)
            def put(self: Any, *args: Any, **kwargs: Any) -> None:
                check(f"puts an item in a {type(self).__name__} of multiprocessing", self._writer)
                # A SimpleQueue sends in this thread, with its lock held.
                before, _here.put = getattr(_here, "put", None), self._writer
                try:
                    original(self, *args, **kwargs)
                finally:
                    _here.put = before

            return put

        kinds = (module.Queue, module.JoinableQueue, module.SimpleQueue)
        return [Patch(kind, "put", putting) for kind in kinds]

    def _pool_patches(self, module: ModuleType) -> list[Installable]:
        check = self._check_workers

        def giving(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def give(self: Any, *args: Any, **kwargs: Any) -> Any:
                if not isinstance(self, module.ThreadPool):
                    does = f"gives a job to a {type(self).__name__} of multiprocessing"
                    check(does, list(self._pool))
                return original(self, *args, **kwargs)

            return give

        names = ("apply_async", "_map_async", "imap", "imap_unordered")
        return [Patch(module.Pool, name, giving) for name in names]

    def _executor_patches(self, module: ModuleType) -> list[Installable]:
        check = self._check_workers

        def submitting(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def submit(self: Any, /, *args: Any, **kwargs: Any) -> Any:
                workers = list((self._processes or {}).values())
                check(f"submits a job to a {type(self).__name__}", workers)
                return original(self, *args, **kwargs)

            return submit

        return [Patch(module.ProcessPoolExecutor, "submit", submitting)]


def _starting(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def start(self: Any) -> None:
        original(self)
        pid, here = _pid(self), current()
        for session, outside in list(_sessions.items()):
            if pid is not None and session.is_active:
                outside.started(pid, inside=session is here)

    return start


def _making(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        session = current()
        outside = None if session is None else _sessions.get(session)
        if outside is not None:
            outside.connections.add(self)

    return begin


def _names(pids: set[int]) -> str:
    """The processes ``pids``, by the names that ``multiprocessing`` has given them."""
    module = sys.modules.get("multiprocessing.process")
    children = [] if module is None else list(module._children)
    names = {_pid(one): one.name for one in children}
    return ", ".join(sorted(names.get(pid) or f"process {pid}" for pid in pids))


def _is_plumbing() -> bool:
    """Is what is sent here no work, or has it been checked where it was given to a pool or queue?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename in _POOLS:
            return True
        within = code.co_filename.startswith(_PACKAGE)
        if within and code.co_name in _HOUSEKEEPING:
            return True
        if not within and code_kind(code.co_filename) != "ours":
            return False
        frame = frame.f_back
    return False


def _is_of_package() -> bool:
    """Does ``multiprocessing`` itself write here?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and code_kind(frame.f_code.co_filename) == "ours":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_PACKAGE)
