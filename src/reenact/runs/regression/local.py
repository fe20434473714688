"""Many at a time, on this machine."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing

from reenact.runs.afar.place import Place
from reenact.runs.afar.pulling import Means, pulling
from reenact.runs.regression.job import Job
from reenact.runs.regression.outcome import Outcome

__all__ = ["Local"]


class Local:
    """An engine with ``jobs`` threads, each of which waits for a process."""

    def __init__(self, job: Job, jobs: int, means: Means | None = None) -> None:
        self._job, self._jobs, self._means = job, jobs, means

    def perform(self, recordings: Sequence[Place]) -> Generator[Outcome, None, None]:
        """See :class:`Engine`."""
        pending: set[Future[Outcome]] = set()
        pool = ThreadPoolExecutor(self._jobs, thread_name_prefix="reenact-regress")
        with closing(pulling(self._job, self._means)) as perform, pool:
            try:
                for recording in recordings:
                    pending.add(pool.submit(perform, recording))
                    if len(pending) >= 2 * self._jobs:
                        yield from _done(pending)
                while pending:
                    yield from _done(pending)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                perform.stop()


def _done(pending: set[Future[Outcome]]) -> Iterator[Outcome]:
    finished, _ = wait(pending, return_when=FIRST_COMPLETED)
    pending -= finished
    for one in finished:
        yield one.result()
