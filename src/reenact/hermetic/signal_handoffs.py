"""Tracker of workers outside a replayed session that wait for a signal of the session.

A worker often gets its work from a list or attribute, and the notice of new work from a signal: a
``Condition``, ``Event``, ``Semaphore`` or ``Barrier`` of ``threading``, ``asyncio`` or anyio, or the
result of a future. The tracker does not see the work itself. So a thread or task outside that waits
for the object when the session signals it acts for the session, see :mod:`.handoffs`, until it waits
for the object again. A thread that has waited for the object while the patches were installed, but is
busy when the session signals it, acts for the session when it uses the object next.

::

    signal inside a replay ──thread waits──> pending ──it wakes──> HANDED ──next wait──> over
                           ──thread is busy─> later ───it uses the object──> HANDED
                           ──task waits─────> HANDED in the context of the task

A signal is work only if code of the program gives it. A library that returns a connection to its pool
also wakes a thread that waits for one, and the statements of that thread are its own. For the same
reason releasing a lock is not a signal, and neither is releasing a semaphore that the session has
acquired.

Invariants: functions here run with the lock of the signalled object held. Apart from it, they take only
the locks that count the users of the patches and list the threads. No code of the program runs under
these locks.

Relies on private details (CPython 3.11 to 3.14): the variables ``self`` and ``waiter`` of
``Condition.wait``, ``_waiters`` of ``Condition``, ``_callbacks`` of futures as pairs of a function and a
context, ``__self__`` of the function that wakes a task, and the qualified names in ``_SIGNALS``.
``tests/unit/hermetic/test_signals.py`` notices a change.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from types import CodeType, FrameType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from reenact._system import thread_frames
from reenact.engine.patches import patch as patches
from reenact.engine.patches.patch import DeferredPatches, Installable, Patch, TypePatch
from reenact.engine.session.context import VARIABLE
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.hermetic.call_origin import code_kind
from reenact.hermetic.handoffs import (
    HANDED,
    LIBRARY,
    SERVED_LIVE,
    THROUGH,
    UNSEEN,
    HandOff,
    Place,
    act_for,
    act_in,
    awaiting,
    handing_session,
    release_unneeded,
)

__all__ = ["SignalHandoffs"]

_WOKEN: Final = "which a signal of the session has woken"

_THREADING: Final = os.path.join(LIBRARY, "threading.py")
_RESULTS: Final = os.path.join(LIBRARY, "concurrent", "futures", "_base.py")
_LOCKS: Final = os.path.join(LIBRARY, "asyncio", "locks.py")
_CHAIN: Final = os.path.join(LIBRARY, "asyncio", "futures.py")
_LOOPS: Final = tuple(
    os.path.join(LIBRARY, "asyncio", name) for name in ("events.py", "runners.py")
)
"""Files that call a function which was posted to a loop, such as ``event.set``."""

_WAITS: Final = {_THREADING, _RESULTS}
"""Files between waiting code and the functions here, in addition to THROUGH."""

THROUGH.add(__file__)

_CONDITION: Final = {f"Condition.{name}" for name in ("notify", "notify_all", "_notify")}
_SEMAPHORE: Final = {
    "Semaphore.release",
    "Semaphore.__exit__",
    "Semaphore._wake_up_next",
    "BoundedSemaphore.release",
    "_ContextManagerMixin.__aexit__",
}
_BARRIER: Final = {
    f"Barrier.{name}" for name in ("wait", "reset", "abort", "_release", "_break", "_exit")
}
_SIGNALS: Final[dict[str, set[str]]] = {
    _THREADING: {"Event.set"} | _CONDITION | _SEMAPHORE | _BARRIER,
    _LOCKS: {"Event.set"} | _CONDITION | _SEMAPHORE | _BARRIER,
    _RESULTS: {
        "Future.set_result",
        "Future.set_exception",
        "_AllCompletedWaiter._decrement_pending_calls",
    }
    | {
        f"_{kind}Waiter.{name}"
        for kind in ("AsCompleted", "FirstCompleted", "AllCompleted")
        for name in ("add_result", "add_exception")
    },
    _CHAIN: {"_copy_future_state", "_chain_future.<locals>._set_state"},
}
"""Qualified names of the functions that signal, by file. Libraries are added when they are imported."""

_ANYIO: Final = {
    "anyio._core._synchronization": {"EventAdapter.set", "SemaphoreAdapter.release"} | _CONDITION,
    "anyio._backends._asyncio": {"Event.set", "Semaphore.release"},
    "anyio.streams.memory": {f"MemoryObjectSendStream.{name}" for name in ("send", "send_nowait")},
}
_STREAMS: Final[set[str]] = set()
"""Files of streams of items. A library that sends an item hands over work, too."""


class _Pending(dict[int, tuple[threading.Thread | None, HandOff]]):
    """Threads that were waiting when they were signalled, by their idents."""

    def taken(self, found: HandOff | None) -> HandOff | None:
        """Return the mark of the signal that has woken this thread, else ``found``."""
        thread, mark = self.pop(threading.get_ident(), (None, None))
        if mark is None or (thread is not None and thread is not threading.current_thread()):
            return found
        _act(mark)
        return mark

    def forget_received(self) -> None:
        """Drop the signal that this thread has received."""
        self.pop(threading.get_ident(), None)

    def forget_ended(self) -> None:
        """Drop the marks of threads that have ended without waiting again."""
        running = set(thread_frames())
        for ident, (thread, _) in list(self.items()):
            if ident not in running or (thread is not None and not thread.is_alive()):
                self.pop(ident, None)


class _Later(WeakKeyDictionary[Any, dict[threading.Thread, HandOff]]):
    """Threads that were busy when a condition was notified, by the condition."""

    def taken(self, found: HandOff | None) -> HandOff | None:
        """Return ``found``: a busy thread is seen when it uses the condition again."""
        return found

    def forget_received(self) -> None:
        """Do nothing: no busy thread has received anything."""

    def forget_ended(self) -> None:
        """Drop the marks of threads that have ended without using the condition again."""
        for condition, marks in list(self.items()):
            for thread in [one for one in list(marks) if not one.is_alive()]:
                marks.pop(thread, None)
            if not marks:
                self.pop(condition, None)


_pending: Final = _Pending()
_later: Final = _Later()
UNSEEN.append(_pending)
UNSEEN.append(_later)

_waited: Final[WeakKeyDictionary[Any, WeakSet[threading.Thread]]] = WeakKeyDictionary()
"""Threads outside every session that have waited for a condition since it is patched."""

_acquired: Final[WeakKeyDictionary[Any, WeakSet[Session]]] = WeakKeyDictionary()
"""Sessions that have acquired a semaphore. They release what they have acquired."""


def _act(mark: HandOff) -> None:
    """This thread or task acts for the session of ``mark`` from now on."""
    mark.received()
    act_for(mark)


def _is_outside() -> bool:
    """Can the thread or task that runs here act for a session?"""
    return current() is None and VARIABLE.get() is None and not SERVED_LIVE.get()


# Signals


def _signalled() -> list[Any] | None:
    """Return the objects that are being signalled, the outermost first, if that is work.

    It is work if the program signals, or a loop to which it has posted the method.
    """
    frame: FrameType | None = sys._getframe(1)
    found: list[Any] = []
    streams = False
    while frame is not None:
        code = frame.f_code
        if code.co_qualname in _SIGNALS.get(code.co_filename, ()):
            signalled = frame.f_locals.get("self")
            streams = streams or code.co_filename in _STREAMS
            found.insert(0, getattr(signalled, "_state", signalled) if streams else signalled)
        elif not _is_patch(code):
            break
        frame = frame.f_back
    if frame is not None and frame.f_code.co_filename not in _LOOPS:
        kind = code_kind(frame.f_code.co_filename)
        if kind != "program" and not (streams and kind == "library"):
            return None
    return [one for one in found if one is not None]


_PATCHES: Final = tuple(os.path.dirname(file) + os.sep for file in (__file__, patches.__file__))
"""Folders of patches."""


def _is_patch(code: CodeType) -> bool:
    """Is ``code`` between a patched method and its caller?"""
    return code.co_filename.startswith(_PATCHES)


def _work(session: Session | None) -> list[Any] | None:
    """Return what is signalled here, None if it is not work that ``session`` hands to others."""
    found = _signalled()
    if found is not None and any(session in _acquired.get(one, ()) for one in found):
        return None
    return found


# Threads


def _notifying(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def notify(self: Any, n: int = 1) -> None:
        if self._waiters or self in _waited:
            session = handing_session()
            owners = None if session is None else _work(session)
            if session is not None and owners is not None:
                _mark_threads(self, n, session, [*owners, self])
        original(self, n)

    return notify


def _mark_threads(condition: Any, n: int, session: Session, owners: list[Any]) -> None:
    """Mark the threads that a notification of ``condition`` wakes, and busy ones that know it."""
    me = threading.get_ident()
    waiting = dict(_waiting_threads(condition))
    gates = list(condition._waiters)[: max(n, 0)]
    for ident, (gate, place) in waiting.items():
        if gate in gates and ident != me:
            thread = threading._active.get(ident)  # type: ignore[attr-defined]
            mark = _thread_mark(thread, session, owners, place)
            if mark is not None:
                _pending[ident] = thread, mark
    for thread in list(_waited.get(condition, ())):
        if thread.ident not in waiting and thread.ident != me and thread.is_alive():
            mark = _thread_mark(thread, session, owners, None)
            if mark is not None:
                _later.setdefault(condition, {})[thread] = mark


def _mark_of(session: Session, owners: list[Any], place: Place | None) -> HandOff | None:
    """Return a mark for the code that waits at ``place``; None for Reenact's own code."""
    if place is not None and code_kind(place[0].co_filename) == "ours":
        return None
    mark = HandOff(session, _WOKEN, *owners)
    mark.asker = place
    return mark


def _thread_mark(
    thread: threading.Thread | None, session: Session, owners: list[Any], place: Place | None
) -> HandOff | None:
    mark = _mark_of(session, owners, place)
    if mark is not None and thread is threading.main_thread():
        mark.let_go()
    return mark


def _waiting_threads(condition: Any) -> Iterator[tuple[int, tuple[Any, Place | None]]]:
    """Yield the threads that wait for ``condition``: ident, lock that wakes it, and place."""
    for ident, frame in thread_frames().items():
        values = frame.f_locals if _is_wait(frame.f_code) else {}
        if values.get("self") is condition and "waiter" in values:
            yield ident, (values["waiter"], _place(frame))


def _note_waiting() -> None:
    """Remember the threads that wait for a condition now."""
    for ident, frame in thread_frames().items():
        thread = threading._active.get(ident)  # type: ignore[attr-defined]
        if thread is not None and _is_wait(frame.f_code):
            condition = frame.f_locals.get("self")
            if condition is not None:
                _waited.setdefault(condition, WeakSet()).add(thread)


def _is_wait(code: CodeType) -> bool:
    """Does ``code`` belong to the original ``Condition.wait``?"""
    return code.co_filename == _THREADING and code.co_qualname == "Condition.wait"


def _place(frame: FrameType | None) -> Place | None:
    """Return the innermost place around ``frame`` that is not part of waiting."""
    while frame is not None and _is_waiting(frame.f_code):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lineno)


def _is_waiting(code: CodeType) -> bool:
    return code.co_filename in _WAITS or code.co_filename in THROUGH or _is_patch(code)


def _waits_for(owner: Any) -> None:
    """Handle the start of a wait for ``owner``: the work that came through it is over."""
    found = HANDED.get()
    if found is not None and (
        found.came_through(owner) or (found.asker is not None and found.asker == _here())
    ):
        act_for(None)
        release_unneeded()


def _here() -> Place | None:
    return _place(sys._getframe(1))


def _waiting(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Condition.wait``, which every wait of a thread ends in."""

    @wraps(original)
    def wait(self: Any, timeout: float | None = None) -> Any:
        if not _is_outside():
            try:
                return original(self, timeout)
            finally:
                _pending.forget_received()
        _waits_for(self)
        _waited.setdefault(self, WeakSet()).add(threading.current_thread())
        try:
            return original(self, timeout)
        finally:
            if _pending:
                _pending.taken(None)

    return wait


def _entering(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def enter(self: Any) -> Any:
        result = original(self)
        if _later or HANDED.get() is not None:
            _entered(self)
        return result

    return enter


def _entered(condition: Any) -> None:
    """Handle ``with condition``: a busy thread looks for its next work.

    With work for others in its list it does not wait. So what came through the condition is over when
    the thread enters it a second time at the same place.
    """
    if not _is_outside():
        return
    mark = _later.get(condition, {}).pop(threading.current_thread(), None)
    if mark is not None:
        _act(mark)
    else:
        mark = HANDED.get()
    if mark is None or mark.owner is not condition:
        return
    place = _here()
    if mark.entered is None:
        mark.entered = place
    elif mark.entered == place:
        act_for(None)


def _asking(original: Callable[..., Any]) -> Callable[..., Any]:
    """A method that waits, if it has to. Without waiting, too, the last work is over."""

    @wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if HANDED.get() is not None:
            _waits_for(self)
        return original(self, *args, **kwargs)

    return method


def _acquiring(original: Callable[..., Any]) -> Callable[..., Any]:
    ask = _asking(original)

    @wraps(original)
    def acquire(self: Any, *args: Any, **kwargs: Any) -> Any:
        _note_acquired(self)
        return ask(self, *args, **kwargs)

    return acquire


def _note_acquired(semaphore: Any) -> None:
    session = current()
    if session is not None:
        _acquired.setdefault(semaphore, WeakSet()).add(session)


# Tasks


def _setting(original: Callable[..., None]) -> Callable[..., None]:
    @wraps(original)
    def method(self: Any, /, *args: Any) -> None:
        if self._callbacks:
            _mark_tasks(self)
        original(self, *args)

    return method


def _mark_tasks(future: Any) -> None:
    """Mark the tasks that wait for ``future``, which gets its result here."""
    session = handing_session()
    if session is None and not any(context.get(HANDED) for _, context in future._callbacks):
        return
    owners = _work(session)
    if owners is None:
        return
    for task, context in list(awaiting(future)):
        if context.get(VARIABLE) is not None or context.get(SERVED_LIVE):
            continue
        place = None if task is None else _awaiting_place(task)
        if session is not None:
            mark = _mark_of(session, [*owners, future], place)
            if mark is not None:
                mark.received()
                mark.worker = mark.worker if task is None else task.get_name()
                act_in(context, mark)
        elif not owners:
            # No method was called to wait for the future: its result, from another part of the
            # program, shows that the work on the last one is over.
            last = context.get(HANDED)
            if last is not None and last.asker == place:
                act_in(context, None)


def _awaiting_place(task: Any) -> Place | None:
    """Return the innermost place of a task that waits."""
    found: Place | None = None
    inner = task.get_coro()
    while inner is not None:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if frame is not None and not _is_waiting(frame.f_code):
            found = frame.f_code, frame.f_lineno
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)
    return found


def _asking_task(original: Callable[..., Any]) -> Callable[..., Any]:
    """Async variant of :func:`_asking`."""

    @wraps(original)
    async def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if HANDED.get() is not None:
            _waits_for(self)
        return await original(self, *args, **kwargs)

    return method


def _acquiring_task(original: Callable[..., Any]) -> Callable[..., Any]:
    ask = _asking_task(original)

    @wraps(original)
    async def acquire(self: Any) -> Any:
        _note_acquired(self)
        return await ask(self)

    return acquire


def _entering_task(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    async def enter(self: Any) -> Any:
        result = await original(self)
        if HANDED.get() is not None:
            _entered(self)
        return result

    return enter


# Patches


class SignalHandoffs:
    """The patches of what threads and tasks wait for."""

    def __init__(self) -> None:
        self._of_futures: list[Installable] = []
        self.patches: list[Installable] = [
            self,
            Patch(threading.Condition, "notify", _notifying),
            Patch(threading.Condition, "wait", _waiting),
            Patch(threading.Condition, "__enter__", _entering),
            Patch(threading.Event, "wait", _asking),
            Patch(threading.Semaphore, "acquire", _acquiring),
            Patch(threading.Semaphore, "__enter__", _acquiring),
            DeferredPatches("concurrent.futures._base", _result_patches),
            DeferredPatches("asyncio.locks", _lock_patches),
            DeferredPatches("asyncio.futures", self._future_patches),
            *(DeferredPatches(name, _anyio_signals) for name in _ANYIO),
        ]

    def install(self) -> None:
        """Remember the threads that wait already."""
        _note_waiting()

    def remove(self) -> None:
        """Drop all marks after the patches were removed."""
        for marks in (_pending, _later, _waited, _acquired):
            marks.clear()

    def _future_patches(self, module: ModuleType) -> list[Installable]:
        """Made once: see :class:`TypePatch`."""
        if not self._of_futures:
            future = module.Future
            patch: Any = Patch if future is module._PyFuture else TypePatch
            names = ("set_result", "set_exception")
            self._of_futures = [patch(future, name, _setting) for name in names]
        return self._of_futures


def _result_patches(module: ModuleType) -> list[Installable]:
    return [Patch(module.Future, name, _asking) for name in ("result", "exception")]


def _lock_patches(module: ModuleType) -> list[Installable]:
    return [
        Patch(module.Event, "wait", _asking_task),
        Patch(module.Condition, "wait", _asking_task),
        Patch(module.Condition, "__aenter__", _entering_task),
        Patch(module.Semaphore, "acquire", _acquiring_task),
    ]


def _anyio_signals(module: ModuleType) -> list[Installable]:
    file = module.__file__ or ""
    _SIGNALS[file] = _ANYIO[module.__name__]
    _WAITS.add(file)
    if module.__name__ == "anyio.streams.memory":
        _STREAMS.add(file)
    return []
