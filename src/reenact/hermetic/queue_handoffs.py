"""Tracker of work that a replayed session hands to a thread or task outside it through a queue.

From receiving the item until its next ``get`` the worker acts for the session that put the item, see
:mod:`.handoffs`. The items are not changed. The session of each item is stored in a side table, by
position if a lock makes the position exact, otherwise by identity. Memory streams of anyio are queues,
too.

An item that a part of the program puts back where it has taken it from, such as a connection of a
pool, is not work, and neither is None.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import wraps
from types import BuiltinMethodType, CodeType, FrameType, ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from reenact._system import thread_frames
from reenact.engine.patches import patch as patches
from reenact.engine.patches.patch import DeferredPatches, Installable, Patch, TypePatch
from reenact.engine.session.current import current
from reenact.hermetic.call_origin import code_kind
from reenact.hermetic.handoffs import (
    HANDED,
    LIBRARY,
    THROUGH,
    UNSEEN,
    HandOff,
    act_for,
    current_handoff,
    handing_session,
    release_unneeded,
)

__all__ = ["QueueHandoffs"]

THROUGH.add(__file__)

_PUT: Final = "which acts on an item that the session has put in a queue"


class _Undelivered:
    """An item that is known by identity only, and that waiting threads may take unseen."""

    def __init__(self, item: Any, mark: HandOff) -> None:
        self.item = item
        self.mark = mark
        waiting, self.bound = _waiting_threads()
        """``bound``: threads that call a bound method, and will not be seen later either."""
        self.waiting: dict[int, threading.Thread | None] = {
            ident: threading._active.get(ident)  # type: ignore[attr-defined]
            for ident in waiting
        }
        """By ident: another thread gets the ident of one that has ended."""


class _UndeliveredItems(dict[int, _Undelivered]):
    """Items that have not been seen to reach a worker, by the identity of their marks."""

    def taken(self, found: HandOff | None) -> HandOff | None:
        """Return ``found``, else the mark of an item that this worker has taken out unseen.

        It was waiting for it in C, or in a method of its own, before the patches were installed. Then
        one of its frames has the item, or what the item consisted of.
        """
        me = threading.get_ident()
        waiting = [one for one in list(self.values()) if me in one.waiting]
        if found is not None or not waiting:
            return found
        wanted = {id(part): one for one in waiting for part in _parts(one.item)}
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            for value in frame.f_locals.values():
                one = wanted.get(id(value))
                if one is None:
                    continue
                if me in one.bound:
                    one.waiting = {me: one.waiting[me]}
                    one.mark.name_worker()
                else:
                    _delivered(one.mark)
                    _forget_mark(one.mark)
                    act_for(one.mark)
                return one.mark
            frame = frame.f_back
        for one in waiting:
            if me in one.bound and one.mark.worker:  # it has acted on the item, and has it no more
                self.pop(id(one.mark), None)
        return None

    def forget_received(self) -> None:
        """This thread is no longer one that may take an item unseen."""
        for one in list(self.values()):
            self.drop_waiting(one, threading.get_ident())

    def forget_ended(self) -> None:
        """Drop the marks of items that only threads which have ended could have taken unseen."""
        running = set(thread_frames())  # the frames themselves would hold this one
        for one in list(self.values()):
            for ident, thread in list(one.waiting.items()):
                if ident not in running or (thread is not None and not thread.is_alive()):
                    self.drop_waiting(one, ident)

    def drop_waiting(self, one: _Undelivered, ident: int) -> None:
        """The thread ``ident`` does not wait for ``one``. The last one drops its mark."""
        one.waiting.pop(ident, None)
        if not one.waiting:
            self.pop(id(one.mark), None)
            _forget_taken(one)


_undelivered: Final = _UndeliveredItems()
UNSEEN.append(_undelivered)


def _parts(item: Any) -> list[Any]:
    """Return ``item``, and what it holds if it is a plain container, without values that other code
    can hold as well."""
    inner = list(item) if isinstance(item, tuple | list) else []
    inner += item.values() if isinstance(item, dict) else []
    own = [one for one in inner if not isinstance(one, _SHARED) and not callable(one)]
    return own if isinstance(item, _NUMBERS) else [item, *own]


_NUMBERS: Final = (bool, int, float)
_SHARED: Final = (*_NUMBERS, type(None), str, bytes, ModuleType)


def _delivered(mark: HandOff) -> None:
    """The item of ``mark`` has reached a worker."""
    _undelivered.pop(id(mark), None)
    mark.received()


def _forget_mark(mark: HandOff) -> None:
    """Drop ``mark`` from the table of its queue."""
    owner = mark.owner
    marks = None if owner is None else _marks.get(owner)
    for key, entries in list(marks.by_identity.items()) if marks is not None else ():
        entries[:] = [entry for entry in entries if entry[1] is not mark]
        if marks is not None and not any(entries):
            marks.by_identity.pop(key, None)


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


def _note_put(owner: Any, item: Any, position: int | None, *, unseen: bool = True) -> None:
    """``item`` is put into ``owner``. ``position`` is where it will be; None if that is unknown.

    ``unseen``: can a thread take it out of ``owner`` without being seen?
    """
    session = handing_session() if item is not None else None
    found = _marks.get(owner)
    if session is None:
        if found is not None and position is None and id(item) in found.by_identity:
            found.by_identity[id(item)].append((item, None))
        return
    if found is not None and found.is_returned(item):
        return
    by = _asker()
    if by is None or code_kind(by.co_filename) == "ours":
        return
    if current() is not None and by.co_filename in _CARRIERS:
        return  # the session goes with the job
    found = _marks_of(owner)
    mark = HandOff(session, _PUT, owner)
    if position is not None:
        found.by_position[position] = mark
        return
    one = _Undelivered(item, mark) if unseen else None
    if one is not None and one.waiting:
        _undelivered[id(mark)] = one
    found.by_identity.setdefault(id(item), []).append((item, mark))


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
        _delivered(mark)
        mark.asker = _asker()
        act_for(mark)
        return
    # A method that was bound before the patches were installed, as in ``iter(items.get, None)``, does
    # not call ``_asks``. Here the next item shows that the work on the last one has ended.
    last = HANDED.get()
    if last is not None and last.came_through(owner):
        act_for(None)


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
    while frame is not None and frame.f_code.co_filename in THROUGH:
        frame = frame.f_back
    return None if frame is None else frame.f_code


_PATCHES: Final = patches.__file__
_CARRIERS: Final = tuple(
    os.path.join(LIBRARY, "concurrent", "futures", name) for name in ("thread.py", "process.py")
)
"""Files of executors, which run their jobs in the session that submits them."""


def _asks(owner: Any) -> None:
    """Handle the start of a ``get`` on ``owner``. If it is for the next item, the work on the last one
    has ended. A worker also gets other objects out of queues, such as connections of a pool: those
    come from other queues, and other code gets them."""
    found = current_handoff() if _undelivered else HANDED.get()
    if found is not None and (found.came_through(owner) or found.asker is _asker()):
        act_for(None)
    # From here on this thread is seen taking items.
    if _undelivered:
        _undelivered.forget_received()
    release_unneeded()


def _forget_taken(one: _Undelivered) -> None:
    """Drop the mark of an item that was taken from its queue unseen: its taker did not act."""
    owner = one.mark.owner
    found = None if owner is None else _marks.get(owner)
    if found is not None and not owner.qsize():
        found.by_identity.pop(id(one.item), None)


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
    """The patches of queues."""

    def __init__(self) -> None:
        self._of_queue: list[Installable] = []
        self.patches: list[Installable] = [
            self,
            DeferredPatches("queue", self._queue_patches),
            DeferredPatches("asyncio.queues", _asyncio_patches),
            DeferredPatches("anyio.streams.memory", _stream_patches),
        ]

    def install(self) -> None:
        """Do nothing: the marks are empty."""

    def remove(self) -> None:
        """Drop all marks after the patches were removed."""
        _marks.clear()

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
    THROUGH.add(module.__file__ or "")

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


def _stream_patches(module: ModuleType) -> list[Installable]:
    """Memory streams of anyio: both ends have the state of the stream, which is the queue."""
    file = module.__file__ or ""
    THROUGH.add(file)

    def is_within() -> bool:
        """Has another method of a stream called the patched one?"""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in (__file__, _PATCHES):
            frame = frame.f_back
        return frame is not None and frame.f_code.co_filename == file

    def sending(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def send_nowait(self: Any, item: Any) -> Any:
            _note_put(self._state, item, None, unseen=False)
            try:
                return original(self, item)
            except BaseException:
                marks = _marks.get(self._state)
                # ``send`` waits until there is room for the item.
                if marks is not None and id(item) in marks.by_identity and not is_within():
                    _marked(marks.by_identity, item)
                raise

        return send_nowait

    def receiving(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        async def receive(self: Any) -> Any:
            _asks(self._state)
            item = await original(self)
            _note_got(self._state, item, None)
            return item

        return receive

    def receiving_now(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def receive_nowait(self: Any) -> Any:
            if is_within():
                return original(self)
            _asks(self._state)
            item = original(self)
            _note_got(self._state, item, None)
            return item

        return receive_nowait

    receiver = module.MemoryObjectReceiveStream
    return [
        Patch(module.MemoryObjectSendStream, "send_nowait", sending),
        Patch(receiver, "receive", receiving),
        Patch(receiver, "receive_nowait", receiving_now),
    ]
