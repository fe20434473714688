"""Patches of ``multiprocessing.Pool``: lanes of its jobs, delivery of its results, and its workers.

Loaded when the program imports ``multiprocessing.pool``. Thread pools are in
:mod:`reenact.engine.patches.thread_pools`.

Invariant: a result reaches the program at most once, in its turn of the recorded order.

Relies on private details (CPython 3.11 to 3.14): ``Pool._map_async`` and ``_cache``, and ``_set`` of
``ApplyResult``, ``MapResult`` and the iterators of ``imap``.
``tests/integration/test_processes_pools.py`` notices a change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from itertools import count
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ref

from reenact.engine.patches.patch import Patch
from reenact.engine.patches.processes import (
    DivergedJob,
    ExpectedResult,
    RemoteJob,
    SubmittedJobs,
    active_session,
    inside_lane,
    note_terminated,
    pool_constructor,
    run_in_lane,
    worker_start,
)
from reenact.errors import DivergenceError

if TYPE_CHECKING:
    from reenact.engine.lanes import Lane
    from reenact.engine.patches.ports import PatchedSession

__all__ = ["pool_patches"]

_here = threading.local()
"""``arrival``: of the jobs that this thread is about to give to a pool."""

_ARRIVAL = "reenact_arrival"
_END = object()


def pool_patches(module: ModuleType) -> list[Patch]:
    """The patches of ``multiprocessing.pool``."""
    pool, of_threads = module.Pool, module.ThreadPool

    def only_processes(wrap: Callable[..., Any]) -> Callable[..., Any]:
        def choose(original: Callable[..., Any]) -> Callable[..., Any]:
            wrapped = wrap(original)

            @wraps(original)
            def method(self: Any, *args: Any, **kwargs: Any) -> Any:
                if isinstance(self, of_threads):
                    return original(self, *args, **kwargs)
                return wrapped(self, *args, **kwargs)

            return method

        return choose

    results = (module.ApplyResult, module.MapResult)
    iterators = (module.IMapIterator, module.IMapUnorderedIterator)
    return [
        Patch(pool, "__init__", only_processes(_founding)),
        Patch(pool, "apply_async", only_processes(_apply_async)),
        Patch(pool, "_map_async", only_processes(_map_async)),
        Patch(pool, "terminate", only_processes(_terminate)),
        Patch(pool, "imap", only_processes(_imap)),
        Patch(pool, "imap_unordered", only_processes(_imap)),
        *(Patch(one, "__init__", _expecting) for one in (module.ApplyResult, module.IMapIterator)),
        *(Patch(one, "_set", _arriving) for one in (*results, *iterators)),
    ]


def _founding(original: Callable[..., None]) -> Callable[..., None]:
    """A thread of the pool replaces workers. It must not hold on to the pool."""

    @wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        self.Process = partial(_make_worker, self.Process, ref(self))
        original(self, *args, **kwargs)

    return pool_constructor(begin)


def _make_worker(make: Callable[..., Any], pool: ref[Any], *args: Any, **kwargs: Any) -> Any:
    worker = make(*args, **kwargs)
    start = worker.start

    def start_hired() -> None:
        del worker.start  # what is pickled is the worker as it was made
        with worker_start(pool()):
            start()

    worker.start = start_hired
    return worker


# Giving jobs


def _apply_async(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_async(
        self: Any,
        func: Callable[..., Any],
        args: Any = (),
        kwds: Any = None,
        callback: Any = None,
        error_callback: Any = None,
    ) -> Any:
        session = active_session()
        kwds = {} if kwds is None else kwds
        if session is None:
            return original(self, func, args, kwds, callback, error_callback)
        given = SubmittedJobs(session)
        told = [_called_back(session, fn) for fn in (callback, error_callback)]
        job = _Sent(given.lane, func)
        return _give(self, given, lambda: original(self, job, args, kwds, *told))

    return apply_async


def _map_async(original: Callable[..., Any]) -> Callable[..., Any]:
    def map_async(
        self: Any,
        func: Callable[..., Any],
        iterable: Iterable[Any],
        mapper: Callable[..., Any],
        chunksize: int | None = None,
        callback: Any = None,
        error_callback: Any = None,
    ) -> Any:
        session = active_session()
        if session is None:
            return original(self, func, iterable, mapper, chunksize, callback, error_callback)
        given = SubmittedJobs(session)
        told = [_called_back(session, fn) for fn in (callback, error_callback)]
        work = [(f"{given.lane}.{number}", item) for number, item in enumerate(iterable, 1)]
        run = _Items(func, starred=mapper.__name__ == "starmapstar")
        return _give(self, given, lambda: original(self, run, work, _mapped, chunksize, *told))

    return map_async


def _imap(original: Callable[..., Any]) -> Callable[..., Any]:
    def imap(
        self: Any, func: Callable[..., Any], iterable: Iterable[Any], *args: Any, **kwargs: Any
    ) -> Any:
        session = active_session()
        if session is None:
            return original(self, func, iterable, *args, **kwargs)
        given = SubmittedJobs(session)
        work = _numbered(session, session.lanes.spawn(), given.lane, iterable)
        return _give(self, given, lambda: original(self, _Items(func), work, *args, **kwargs))

    return imap


def _give(pool: Any, given: SubmittedJobs, put: Callable[[], Any]) -> Any:
    scheduler = given.arrival.session.scheduler
    with scheduler.lock:
        scheduler.threads.employ(pool)
    _here.arrival = given.arrival
    try:
        return put()
    finally:
        _here.arrival = None


def _called_back(session: PatchedSession, fn: Callable[..., Any] | None) -> Any:
    """``fn`` is called in a thread of the pool, and is the program's own all the same."""
    if fn is None:
        return None
    lane = session.lanes.spawn()

    def call(result: Any) -> None:
        with inside_lane(session, lane):
            fn(result)

    return call


def _numbered(
    session: PatchedSession, own: Lane, jobs: str, iterable: Iterable[Any]
) -> Iterator[tuple[str, Any]]:
    """Drawn from in a thread of the pool: what that takes has a lane of its ``own``."""
    with inside_lane(session, own):
        items = iter(iterable)
    for number in count(1):
        with inside_lane(session, own):
            item = next(items, _END)
        if item is _END:
            return
        yield f"{jobs}.{number}", item


def _terminate(original: Callable[..., None]) -> Callable[..., None]:
    """Jobs that are under way end with their workers, wherever they are."""

    def terminate(self: Any) -> None:
        for result in list(self._cache.values()):
            arrival: ExpectedResult | None = getattr(result, _ARRIVAL, None)
            if arrival is not None:
                note_terminated(arrival.job)
        original(self)

    return terminate


# Doing them, in a worker


class _Sent(RemoteJob):
    """One job."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _do(lambda: super(_Sent, self).__call__(*args, **kwargs))

    def __reduce__(self) -> Any:
        return _Sent, (self.lane, self.fn)


class _Items:
    """``fn`` of one item after the other, each with the lane of its job."""

    __slots__ = ("fn", "starred")

    def __init__(self, fn: Callable[..., Any], *, starred: bool = False) -> None:
        self.fn = fn
        self.starred = starred

    def __call__(self, work: tuple[str, Any]) -> Any:
        lane, item = work
        return _do(
            lambda: run_in_lane(lane, lambda: self.fn(*item) if self.starred else self.fn(item))
        )


def _do(job: Callable[[], Any]) -> Any:
    """Run ``job``; turn errors that would end the worker, and lose the job, into results."""
    try:
        return job()
    except DivergenceError as error:
        raise DivergedJob(error) from None


def _mapped(batch: tuple[Callable[..., Any], Iterable[Any]]) -> list[Any]:
    return list(map(*batch))


# Results


def _expecting(original: Callable[..., None]) -> Callable[..., None]:
    """Made by the thread that gives the jobs, before it gives them."""

    @wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        setattr(self, _ARRIVAL, getattr(_here, "arrival", None))
        original(self, *args, **kwargs)

    return begin


def _arriving(original: Callable[..., None]) -> Callable[..., None]:
    """A part of the result has come, in a thread of the pool."""

    @wraps(original)
    def set_part(self: Any, number: int, came: tuple[bool, Any]) -> None:
        success, value = came
        if isinstance(value, DivergedJob):
            came = success, value.error
        arrival: ExpectedResult | None = getattr(self, _ARRIVAL, None)
        if arrival is None:  # of a pool of threads, or outside any session
            original(self, number, came)
            return
        arrival.take(lambda: original(self, number, came), part=f":{number}")

    return set_part
