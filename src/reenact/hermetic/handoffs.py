"""Workers outside a replayed session that act for it.

A worker is a thread or task in no session, so the boundaries do not see its calls. While it acts for
a session, its connections, sends, statements and process starts are refused and reported there.

::

    put or signal inside a replay ──> mark ──worker receives it──> HANDED ──next wait──> over

:mod:`.queue_handoffs` and :mod:`.signal_handoffs` make the marks. No worker acts for a session inside
a request that is served live (:data:`SERVED_LIVE`), nor does the main thread after the end of the
session, because it has received a result.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from functools import partial, wraps
from types import CodeType
from typing import Any, Final, Protocol
from weakref import ref

from reenact.engine.lanes import running_loop
from reenact.engine.patches import patch as patches
from reenact.engine.patches.patch import Patch
from reenact.engine.session.context import VARIABLE
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = [
    "HANDED",
    "LIBRARY",
    "SERVED_LIVE",
    "THROUGH",
    "UNSEEN",
    "HandOff",
    "Place",
    "act_for",
    "act_in",
    "awaiting",
    "current_handoff",
    "handing_session",
    "release_unneeded",
    "served_live",
    "thread_start_patch",
    "worker_name",
]

SERVED_LIVE: Final[ContextVar[bool]] = ContextVar("reenact_served_live", default=False)
"""True inside a live request that is not recorded. A recorded request is in a session."""


@contextmanager
def served_live() -> Iterator[None]:
    """Mark the block as a live request that is not recorded.

    Work that this thread receives in it unseen is dropped at its end.
    """
    token = SERVED_LIVE.set(True)
    try:
        yield
    finally:
        for marks in UNSEEN:
            if marks:
                marks.forget_received()
        SERVED_LIVE.reset(token)


_unneeded: Final[deque[Callable[[], None]]] = deque()
"""Functions that give patches back."""


Place = tuple[CodeType, int]
"""Some code, and the line that it executes."""


class HandOff:
    """A session for which a worker acts.

    As long as a thread acts for the session, the patches stay installed, also after the end of the
    session. A copied context can refer to a hand-off much longer, so the end of the work counts, not
    the end of the object. Hand-offs that no worker received are collected anywhere, where nothing can
    be released: see :func:`release_unneeded`.
    """

    __slots__ = (
        "__weakref__",
        "_acting",
        "_release",
        "asker",
        "does",
        "entered",
        "in_main_thread",
        "owners",
        "session",
        "worker",
    )

    def __init__(self, session: Session, does: str, *owners: Any) -> None:
        self.session = session
        self.does = does
        """The relative clause about the worker in a refusal."""
        self.owners: tuple[ref[Any], ...] = tuple(ref(one) for one in owners)
        """The queue, or the signalled object and its parts."""
        self.asker: CodeType | Place | None = None
        """The code that has asked for the item, or the place that has waited for the signal."""
        self.entered: Place | None = None
        """The place at which the worker has entered the notified condition."""
        self.in_main_thread = False
        """Has the main thread received the work? Its context is copied to other threads."""
        self.worker = ""
        self._acting: set[Any] = set()
        """Idents of workers, and threads that they have started."""
        self._release: Callable[[], None] | None = session.keep_patches(in_replay=True)

    @property
    def owner(self) -> Any:
        """The queue or signalled object itself, None if it was deleted."""
        return self.owners[0]() if self.owners else None

    def came_through(self, owner: Any) -> bool:
        """Did the work come through ``owner``?"""
        return any(one() is owner for one in self.owners)

    def name_worker(self) -> None:
        """Note the name of this thread or task, for the refusal."""
        self.worker = worker_name()

    def received(self) -> None:
        """Note that this thread or task has received the work."""
        self.name_worker()
        self.in_main_thread = threading.current_thread() is threading.main_thread()
        if self.in_main_thread:
            self.let_go()

    def begin(self, actor: Any) -> None:
        """Handle the start of work for the session."""
        self._acting.add(actor)

    def end(self, actor: Any) -> None:
        """Handle the end of the work of ``actor``."""
        self._acting.discard(actor)
        if not self._acting:
            self.let_go()

    def let_go(self) -> None:
        """Do not keep the patches installed any longer than the session does."""
        release, self._release = self._release, None
        if release is not None:
            _unneeded.append(release)

    def __del__(self, append: Callable[[Any], None] = _unneeded.append) -> None:
        if self._release is not None:
            append(self._release)  # bound: it is called when the interpreter has begun to end


HANDED: Final[ContextVar[HandOff | None]] = ContextVar("reenact_handed", default=None)
"""The hand-off of this worker, which :func:`current_handoff` returns if it is valid here."""


class _Unseen(Protocol):
    """Marks of work that a worker has received, or may have received, without being seen.

    It was waiting before the patches were installed, so no function of ours runs when it wakes.
    """

    def __len__(self) -> int: ...

    def taken(self, found: HandOff | None) -> HandOff | None:
        """Return the mark of the work that this thread has received unseen, else ``found``."""

    def forget_received(self) -> None:
        """Drop the marks of work that this thread may have received."""

    def forget_ended(self) -> None:
        """Drop the marks that only threads which have ended could have received."""


UNSEEN: Final[list[_Unseen]] = []


def current_handoff() -> HandOff | None:
    """Return the session for which this worker acts, if it is in no session itself."""
    if VARIABLE.get() is not None or SERVED_LIVE.get():
        return None
    found = HANDED.get()
    for marks in UNSEEN:
        if marks:
            found = marks.taken(found)
    if found is None or (found.in_main_thread and not found.session.is_active):
        return None
    return found


def act_for(mark: HandOff | None) -> None:
    """Start to act for the session of ``mark``, or for none, and end the work for the last one.

    A task that does nothing but receive the work, as in ``wait_for(items.get(), 1)``, does so for the
    task that waits for it.
    """
    last = HANDED.get()
    _set_handed(mark)
    task = _current_task()
    for _, context in awaiting(task) if task is not None else ():
        if context.get(HANDED) is last:
            act_in(context, mark)


def act_in(context: Context, mark: HandOff | None) -> None:
    """Let a task that waits, and runs in ``context``, act for the session of ``mark``."""
    with suppress(RuntimeError):  # a program has entered the context somewhere else
        context.run(_set_handed, mark)


def _set_handed(mark: HandOff | None) -> None:
    last = HANDED.get()
    if mark is not None and not mark.in_main_thread:
        mark.begin(threading.get_ident())
    HANDED.set(mark)
    if last is not None and last is not mark:
        last.end(threading.get_ident())


def _current_task() -> Any:
    return None if running_loop() is None else sys.modules["asyncio"].current_task()


def awaiting(future: Any) -> Iterator[tuple[Any, Context]]:
    """Yield the tasks that wait for ``future``, with their contexts.

    The first of each pair is None for a callback that is not a task. If ``future`` is a task, its
    waiters are yielded only if it waits in their place: they have called ``wait_for``, or the task
    consists of a method such as ``Event.wait``.
    """
    is_task = hasattr(future, "get_coro")
    receives = not is_task or _receives_only(future)
    for callback, context in list(future._callbacks or ()):
        inner = _released(callback, receives)
        if inner is not None:
            yield from awaiting(inner)
        elif receives:
            found = getattr(callback, "__self__", None)
            waiter = found if hasattr(found, "get_coro") else None
            yield waiter, context
            if waiter is not None:
                yield from awaiting(waiter)


def _receives_only(task: Any) -> bool:
    """Does ``task`` consist of one method of a queue or lock?"""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and code.co_filename in THROUGH


def _released(callback: Any, receives: bool) -> Any:
    """Return the future that ``callback`` of ``wait_for`` (Python 3.11) or ``wait`` sets."""
    if isinstance(callback, partial) and callback.func.__name__ == "_release_waiter":
        return callback.args[0]
    if receives and getattr(callback, "__qualname__", "") == "_wait.<locals>._on_completion":
        cells = dict(zip(callback.__code__.co_freevars, callback.__closure__ or (), strict=True))
        return cells["waiter"].cell_contents
    return None


def worker_name() -> str:
    """Return the name of the task that runs here, else of the thread."""
    task = _current_task()
    return threading.current_thread().name if task is None else str(task.get_name())


def release_unneeded() -> None:
    """Give back the patches of hand-overs that are over."""
    for marks in UNSEEN:
        if marks:
            marks.forget_ended()
    while _unneeded:
        try:
            unneeded = _unneeded.popleft()
        except IndexError:
            return  # another thread has taken the last
        unneeded()


def handing_session() -> Session | None:
    """Return the replay that hands over what is put or signalled here. A replay of the whole
    process has no outside."""
    session = current()
    if session is None:
        found = current_handoff()
        session = None if found is None else found.session
    if session is None or session.settings.whole_process:
        return None
    # A replay of an exchange that makes new calls live refuses drivers and files all the same.
    if session.mode != "replay" and not session.settings.refuses_drivers:
        return None
    return session if session.settings.boundaries is not None else None


LIBRARY: Final = os.path.dirname(threading.__file__)
THROUGH: Final = {
    __file__,
    patches.__file__,
    os.path.join(LIBRARY, "queue.py"),
    os.path.join(LIBRARY, "asyncio", "locks.py"),
}
"""Files between the code that uses a queue or an asynchronous lock and the functions here."""


def thread_start_patch() -> Patch:
    """Return the patch that lets a thread act for the same session as the worker that starts it."""
    return Patch(threading.Thread, "start", _starting)


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def start(self: Any) -> None:
        found = current_handoff()
        if found is None:
            original(self)
            return
        own = self.run

        def run() -> None:
            vars(self).pop("run", None)
            HANDED.set(found)
            try:
                own()
            finally:
                found.end(self)

        self.run = run
        found.begin(self)
        try:
            original(self)
        except BaseException:
            vars(self).pop("run", None)
            found.end(self)
            raise

    return start
