"""Many at a time, on this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from reenact.runs.regression.outcome import Outcome

__all__ = ["Perform", "perform_all"]

Perform = Callable[[Path], Outcome]


def perform_all(
    recordings: Iterable[Path], perform: Perform, jobs: int
) -> Generator[Outcome, None, None]:
    """Outcomes as they come. Whoever stops asking ends it: what is under way is finished, and
    nothing more is begun."""
    left = iter(recordings)
    pending: set[Future[Outcome]] = set()
    with ThreadPoolExecutor(jobs, thread_name_prefix="reenact-regress") as pool:
        try:
            for recording in left:
                pending.add(pool.submit(perform, recording))
                if len(pending) >= 2 * jobs:
                    yield from _done(pending)
            while pending:
                yield from _done(pending)
        finally:
            for one in pending:
                one.cancel()


def _done(pending: set[Future[Outcome]]) -> Iterator[Outcome]:
    finished, _ = wait(pending, return_when=FIRST_COMPLETED)
    pending -= finished
    for one in finished:
        yield one.result()
