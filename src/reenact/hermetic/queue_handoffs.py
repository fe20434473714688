"""Tracker of work that a replayed session hands to a thread or task outside it through a queue.

The worker is in no session, so the boundaries do not see its calls. From receiving the item until
its next ``get`` it acts for the session that put the item: connections, sends and statements are
refused and reported there. The items are not changed. The session of each item is stored in a
side table, by position if a lock makes the position exact, otherwise by identity.

An item that a part of the program puts back where it has taken it from, such as a connection of a
pool, is not work, and neither is None. No worker acts for a session inside a request that is
served live (:data:`SERVED_LIVE`), nor does the main thread after the end of the session, because
it has received a result.

::

    put inside a replay ──> mark ──get by a worker──> handed (context variable) ──next get──> over
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from types import BuiltinMethodType, CodeType, FrameType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from reenact._system import thread_frames
from reenact.engine.lanes import running_loop
from reenact.engine.patches import patch as patches
from reenact.engine.patches.patch import DeferredPatches, Installable, Patch, TypePatch
from reenact.engine.session.context import VARIABLE
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.hermetic.call_origin import code_kind

__all__ = [
    "SERVED_LIVE",
    "HandOff",
    "QueueHandoffs",
    "current_handoff",
    "handing_session",
    "release_unneeded",
]

SERVED_LIVE: Final[ContextVar[bool]] = ContextVar("reenact_served_live", default=False)
"""True inside a live request that is not recorded. A recorded request is in a session."""


_unneeded: Final[deque[Callable[[], None]]] = deque()
"""Functions that give patches back."""


class HandOff:
    """A session for which a worker acts.

    As long as a thread acts for the session, the patches stay installed, also after the end of the
    session. A copied context can refer to a hand-off much longer, so the end of the work counts, not
    the end of the object. Hand-offs that no worker received are collected anywhere, where nothing can
    be released: see :func:`release_unneeded`.
    """

    __slots__ = (
        "_acting",
        "_release",
        "asker",
        "bound",
        "in_main_thread",
        "queue",
        "session",
        "threads",
        "waiting",
        "worker",
    )

    def __init__(self, session: Session) -> None:
        self.session = session
        self.queue: ref[Any] | None = None
        self.asker: CodeType | None = None
        """The code that has asked for the item."""
        self.in_main_thread = False
        """Has the main thread received the item? Its context is copied to other threads."""
        self.threads: dict[int, threading.Thread | None] = {}
        """The waiting threads by ident: another thread gets the ident of one that has ended."""
        self.waiting: set[int] = set()
        """Threads that were waiting for an item when this one was put, and may take it unseen."""
        self.bound: set[int] = set()
        """Threads that call a bound method, and will not be seen later either."""
        self.worker = ""
        self._acting: set[Any] = set()
        """Idents of workers, and threads that they have started."""
        self._release: Callable[[], None] | None = session.keep_patches(in_replay=True)

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


_undelivered: Final[dict[int, tuple[Any, HandOff]]] = {}
"""Items that are known by identity only, and have not been seen to reach a worker."""
_HANDED: Final[ContextVar[HandOff | None]] = ContextVar("reenact_handed", default=None)


def current_handoff() -> HandOff | None:
    """Return the session for which this worker acts, if it is in no session itself."""
    if VARIABLE.get() is not None or SERVED_LIVE.get():
        return None
    found = _HANDED.get()
    if found is None and _undelivered:
        found = _taken_unseen()
    if found is None or (found.in_main_thread and not found.session.is_active):
        return None
    return found


def _taken_unseen() -> HandOff | None:
    """Return the mark of an item that this worker has taken out without being seen.

    It was waiting for it in C, or in a method of its own, before the patches were installed. Then
    one of its frames has the item, or what the item consisted of.
    """
    me = threading.get_ident()
    waiting = [(item, mark) for item, mark in list(_undelivered.values()) if me in mark.waiting]
    if not waiting:
        return None
    wanted = {id(one): mark for item, mark in waiting for one in _parts(item)}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        for value in frame.f_locals.values():
            mark = wanted.get(id(value))
            if mark is None:
                continue
            if me in mark.bound:
                mark.waiting, mark.worker = {me}, _worker_name()
            else:
                _delivered(mark, None)
                _act_for(mark)
            return mark
        frame = frame.f_back
    for _, mark in waiting:
        if me in mark.bound and mark.worker:  # it has acted on the item, and has it no more
            _undelivered.pop(id(mark), None)
    return None


def _parts(item: Any) -> list[Any]:
    """Return ``item``, and what it holds if it is a plain container, without values that other code
    can hold as well."""
    inner = list(item) if isinstance(item, tuple | list) else []
    inner += item.values() if isinstance(item, dict) else []
    own = [one for one in inner if not isinstance(one, _SHARED) and not callable(one)]
    return own if isinstance(item, _NUMBERS) else [item, *own]


_NUMBERS: Final = (bool, int, float)
_SHARED: Final = (*_NUMBERS, type(None), str, bytes, ModuleType)


def _delivered(mark: HandOff, owner: Any) -> None:
    """The item of ``mark`` has reached a worker."""
    _undelivered.pop(id(mark), None)
    mark.worker = _worker_name()
    mark.in_main_thread = threading.current_thread() is threading.main_thread()
    if mark.in_main_thread:
        mark.let_go()
    if owner is not None:
        mark.queue = ref(owner)
        return
    owner = None if mark.queue is None else mark.queue()
    marks = _marks.get(owner) if owner is not None else None
    for key, entries in list(marks.by_identity.items()) if marks is not None else ():
        entries[:] = [entry for entry in entries if entry[1] is not mark]
        if marks is not None and not any(entries):
            marks.by_identity.pop(key, None)


def _act_for(mark: HandOff | None) -> None:
    """Start to act for the session of ``mark``, or for none, and end the work for the last one."""
    last = _HANDED.get()
    if mark is not None and not mark.in_main_thread:
        mark.begin(threading.get_ident())
    _HANDED.set(mark)
    if last is not None and last is not mark:
        last.end(threading.get_ident())


def _worker_name() -> str:
    """The name of the task that runs here, else of the thread."""
    if running_loop() is not None:
        task = sys.modules["asyncio"].current_task()
        if task is not None:
            return str(task.get_name())
    return threading.current_thread().name


def release_unneeded() -> None:
    """Give back the patches of hand-overs that are over."""
    if _undelivered:
        _forget_ended_threads()
    while _unneeded:
        try:
            unneeded = _unneeded.popleft()
        except IndexError:
            return  # another thread has taken the last
        unneeded()


def _forget_ended_threads() -> None:
    """Drop the marks of items that only threads which have ended could have taken unseen."""
    running = set(thread_frames())  # the frames themselves would hold this one
    for item, mark in list(_undelivered.values()):
        for ident in list(mark.waiting):
            thread = mark.threads.get(ident)
            if ident not in running or (thread is not None and not thread.is_alive()):
                mark.waiting.discard(ident)
        if not mark.waiting:
            _undelivered.pop(id(mark), None)
            _forget_taken(mark, item)


def handing_session() -> Session | None:
    """Return the replay that hands over what is put here. A replay of the whole process has no
    outside."""
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


# Marks


class _Marks:
    """Marks of the items of one queue. Positions are changed with the lock of the queue held."""

    def __init__(self) -> None:
        self.taken = 0
        self.by_position: dict[int, HandOff] = {}
        self.by_identity: dict[int, list[tuple[Any, HandOff | None]]] = {}
        self.borrowed: dict[int, list[Any]] = {}
        """By thread: items that a replay has taken out, and may put back."""

    def is_returned(self, item: Any) -> bool:
        """Has this thread taken ``item`` out before, or is one of both a blank?"""
        lent = self.borrowed.get(threading.get_ident(), [])
        for position, one in enumerate(lent):
            if one is item or one is None or item is None:
                del lent[position]
                return True
        return False


_marks: WeakKeyDictionary[Any, _Marks] = WeakKeyDictionary()


def _marks_of(owner: Any) -> _Marks:
    found = _marks.get(owner)
    if found is None:
        found = _marks.setdefault(owner, _Marks())
    return found


def _note_put(owner: Any, item: Any, position: int | None) -> None:
    """``item`` is put into ``owner``. ``position`` is where it will be; None if that is unknown."""
    session = handing_session() if item is not None else None
    found = _marks.get(owner)
    if session is None:
        if found is not None and position is None and id(item) in found.by_identity:
            found.by_identity[id(item)].append((item, None))
        return
    if found is not None and found.is_returned(item):
        return
    asker = _asker()
    if asker is None or code_kind(asker.co_filename) == "ours":
        return
    if current() is not None and asker.co_filename in _CARRIERS:
        return  # the session goes with the job
    found = _marks_of(owner)
    if position is None:
        mark = HandOff(session)
        mark.queue = ref(owner)
        mark.waiting, mark.bound = _waiting_threads()
        mark.threads = {ident: threading._active.get(ident) for ident in mark.waiting}  # type: ignore[attr-defined]
        if mark.waiting:
            _undelivered[id(mark)] = item, mark
        found.by_identity.setdefault(id(item), []).append((item, mark))
    else:
        found.by_position[position] = HandOff(session)


def _note_got(owner: Any, item: Any, position: int | None) -> None:
    """This thread or task has taken ``item`` out of ``owner``."""
    found = _marks.get(owner)
    mark: HandOff | None = None
    if found is not None and position is not None:
        mark = found.by_position.pop(position, None)
    elif found is not None and id(item) in found.by_identity:
        mark = _marked(found.by_identity, item)
    session = handing_session()
    if session is not None and mark is None:
        lent = _marks_of(owner).borrowed.setdefault(threading.get_ident(), [])
        lent.append(item)
    if current() is not None:
        return
    if mark is not None:
        _delivered(mark, owner)
        mark.asker = _asker()
        _act_for(mark)
        return
    # A method that was bound before the patches were installed, as in ``iter(items.get, None)``, does
    # not call ``_asks``. Here the next item shows that the work on the last one has ended.
    last = _HANDED.get()
    if last is not None and last.queue is not None and last.queue() is owner:
        _act_for(None)


def _marked(marks: dict[int, list[tuple[Any, HandOff | None]]], item: Any) -> HandOff | None:
    """Take the mark of ``item``. The same object may have been put from outside as well: then any
    of them counts as the session's."""
    entries = marks[id(item)]
    found = next((mark for _, mark in entries if mark is not None), None)
    plain = next((entry for entry in entries if entry[1] is None), entries[0])
    entries.remove(plain)
    if not entries:
        del marks[id(item)]
    return found


def _asker() -> CodeType | None:
    """Return the code that uses a queue, outside this module and the modules of queues."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _THROUGH:
        frame = frame.f_back
    return None if frame is None else frame.f_code


_LIBRARY: Final = os.path.dirname(threading.__file__)
_THROUGH: Final = {__file__, patches.__file__, os.path.join(_LIBRARY, "queue.py")}
"""Files between the code that uses a queue and the functions here."""

_CARRIERS: Final = tuple(
    os.path.join(_LIBRARY, "concurrent", "futures", name) for name in ("thread.py", "process.py")
)
"""Files of executors, which run their jobs in the session that submits them."""


def _asks(owner: Any) -> None:
    """Handle the start of a ``get`` on ``owner``. If it is for the next item, the work on the last one
    has ended. A worker also gets other objects out of queues, such as connections of a pool: those
    come from other queues, and other code gets them."""
    found = current_handoff() if _undelivered else _HANDED.get()
    if found is not None:
        same = found.queue is not None and found.queue() is owner
        if same or found.asker is _asker():
            _act_for(None)
    # From here on this thread is seen taking items.
    me = threading.get_ident()
    for item, mark in list(_undelivered.values()) if _undelivered else ():
        mark.waiting.discard(me)
        if not mark.waiting:
            _undelivered.pop(id(mark), None)
            _forget_taken(mark, item)
    release_unneeded()


def _forget_taken(mark: HandOff, item: Any) -> None:
    """Drop ``mark`` if its item was taken from its queue unseen: its taker did not act."""
    owner = None if mark.queue is None else mark.queue()
    found = None if owner is None else _marks.get(owner)
    if found is not None and owner is not None and not owner.qsize():
        found.by_identity.pop(id(item), None)


def _waiting_threads() -> tuple[set[int], set[int]]:
    """Return the threads that wait for an item of a queue, and which of them use a bound method."""
    me = threading.get_ident()
    tops = {ident: top for ident, top in thread_frames().items() if ident != me}
    bound = {ident for ident, top in tops.items() if _is_bound(top)}
    return bound | {ident for ident, top in tops.items() if _is_waiting(top)}, bound


def _is_waiting(top: FrameType) -> bool:
    """Does the thread with this innermost frame wait for an item? ``get`` of a queue in C has no frame
    of its own, so code that is about to call a method of that name counts."""
    if "get" in top.f_code.co_names and _calls_get(top):
        return True
    frame: FrameType | None = top
    for _ in range(4):  # a method of a subclass, get, wait, acquire
        if frame is None:
            break
        if frame.f_code.co_name == "get":
            return True
        frame = frame.f_back
    return False


def _is_bound(top: FrameType) -> bool:
    """Does the thread perhaps wait in a method that it has bound: in a loop over an iterator, which may
    be ``iter(items.get, None)``, or with the method in a variable?"""
    return _loops(top) or any(_is_get(value) for value in top.f_locals.values())


def _loops(frame: FrameType) -> bool:
    """Is the current instruction of ``frame`` the head of a loop?"""
    import dis

    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] == dis.opmap["FOR_ITER"]


def _is_get(value: Any) -> bool:
    """Is ``value`` the method ``get`` of a queue in C?"""
    return (
        isinstance(value, BuiltinMethodType)
        and value.__name__ == "get"
        and type(value.__self__).__name__ == "SimpleQueue"
    )


def _calls_get(frame: FrameType) -> bool:
    """Is ``get`` among the attributes that ``frame`` has loaded just before its current instruction?"""
    import dis

    loaded: deque[str] = deque(maxlen=_LOADS)
    for one in dis.get_instructions(frame.f_code):
        if one.offset > frame.f_lasti:
            break
        loaded.append(str(one.argval) if one.opname in ("LOAD_METHOD", "LOAD_ATTR") else "")
    return "get" in loaded


_LOADS: Final = 12
"""Maximum number of instructions that load arguments between loading and calling a method."""


# Patches


class QueueHandoffs:
    """The patches of queues, and of threads that a worker starts while it acts for a session."""

    def __init__(self) -> None:
        self._of_queue: list[Installable] = []
        self._patches: list[Installable] = [
            Patch(threading.Thread, "start", _starting),
            DeferredPatches("queue", self._queue_patches),
            DeferredPatches("asyncio.queues", _asyncio_patches),
        ]

    def _queue_patches(self, module: Any) -> list[Installable]:
        """Made once: see :class:`TypePatch`."""
        if self._of_queue:
            return self._of_queue
        simple = module.SimpleQueue
        python = simple.__module__ == "queue"  # an interpreter without the one in C
        patch: Any = Patch if python else TypePatch
        self._of_queue = [
            Patch(module.Queue, "put", _putting),
            Patch(module.Queue, "get", _getting),
            *_positions(module.Queue, lambda owner: owner._qsize()),
            *_depths(module.LifoQueue),
            *_identities(module.PriorityQueue),
            # ``get_nowait`` of the type in C does not call ``get``, in the same way as ``put_nowait``.
            *(patch(simple, name, _putting_by_identity) for name in ("put", "put_nowait")),
            *(patch(simple, name, _getting_by_identity) for name in ("get", "get_nowait")),
        ]
        return self._of_queue

    def install(self) -> None:
        for patch in self._patches:
            patch.install()

    def remove(self) -> None:
        for patch in reversed(self._patches):
            patch.remove()
        _marks.clear()


def _stores_itself(owner: Any) -> bool:
    """Does a subclass store its items in a way of its own, which the patches do not see?"""
    module = sys.modules["queue"]
    kinds = (module.Queue, module.LifoQueue, module.PriorityQueue)
    return not any(type(owner)._put is kind._put for kind in kinds)


def _putting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def put(self: Any, item: Any, *args: Any, **kwargs: Any) -> None:
        if _stores_itself(self):
            _note_put(self, item, None)
        original(self, item, *args, **kwargs)

    return put


def _getting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def get(self: Any, *args: Any, **kwargs: Any) -> Any:
        _asks(self)
        item = original(self, *args, **kwargs)
        if _stores_itself(self):
            _note_got(self, item, None)
        return item

    return get


def _positions(owner: Any, size: Callable[[Any], int]) -> list[Patch]:
    """First in, first out: an item is as far from its end as there are items before it."""

    def putting(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def _put(self: Any, item: Any) -> None:
            found = _marks.get(self)
            _note_put(self, item, size(self) + (0 if found is None else found.taken))
            original(self, item)

        return _put

    def getting(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def _get(self: Any) -> Any:
            item = original(self)
            found = _marks.get(self)
            position = 0
            if found is not None:
                position = found.taken
                found.taken += 1
            _note_got(self, item, position)
            return item

        return _get

    return [Patch(owner, "_put", putting), Patch(owner, "_get", getting)]


def _depths(owner: Any) -> list[Patch]:
    """Last in, first out: an item lies on as many as there were when it was put."""

    def putting(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def _put(self: Any, item: Any) -> None:
            _note_put(self, item, len(_items(self)))
            original(self, item)

        return _put

    def getting(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def _get(self: Any) -> Any:
            item = original(self)
            _note_got(self, item, len(_items(self)))
            return item

        return _get

    return [Patch(owner, "_put", putting), Patch(owner, "_get", getting)]


def _items(owner: Any) -> Any:
    """The items of a queue of ``queue`` or of ``asyncio``."""
    return owner.queue if hasattr(owner, "queue") else owner._queue


def _identities(owner: Any) -> list[Patch]:
    return [Patch(owner, "_put", _putting_by_identity), Patch(owner, "_get", _taking_by_identity)]


def _putting_by_identity(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def put(self: Any, item: Any, *args: Any, **kwargs: Any) -> None:
        _note_put(self, item, None)  # first: a worker may have it the next moment
        original(self, item, *args, **kwargs)

    return put


def _taking_by_identity(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def _get(self: Any) -> Any:
        item = original(self)
        _note_got(self, item, None)
        return item

    return _get


def _getting_by_identity(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def get(self: Any, *args: Any, **kwargs: Any) -> Any:
        _asks(self)
        item = original(self, *args, **kwargs)
        _note_got(self, item, None)
        return item

    return get


def _asyncio_patches(module: ModuleType) -> list[Installable]:
    _THROUGH.add(module.__file__ or "")

    def getting(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        async def get(self: Any) -> Any:
            _asks(self)
            return await original(self)

        return get

    def getting_now(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def get_nowait(self: Any) -> Any:
            _asks(self)
            return original(self)

        return get_nowait

    return [
        Patch(module.Queue, "get", getting),
        Patch(module.Queue, "get_nowait", getting_now),
        *_positions(module.Queue, lambda owner: len(owner._queue)),
        *_depths(module.LifoQueue),
        *_identities(module.PriorityQueue),
    ]


def _starting(original: Callable[..., Any]) -> Callable[..., Any]:
    """A thread that a worker starts acts for the same session as the worker."""

    @wraps(original)
    def start(self: Any) -> None:
        found = current_handoff()
        if found is None:
            original(self)
            return
        own = self.run

        def run() -> None:
            vars(self).pop("run", None)
            _HANDED.set(found)
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
