"""Engines that replay many recordings in parallel: local threads or a Ray cluster."""

from __future__ import annotations

import os
import platform
import signal
import threading
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from reenact.errors import UsageError
from reenact.runs.regression.jobs import Engine, Job
from reenact.runs.regression.outcomes import Outcome, as_line, name_of
from reenact.runs.remote.download import (
    FetchingPerformer,
    FetchOptions,
    fetching_performer,
)
from reenact.runs.remote.location import Location, RemoteRecording

__all__ = [
    "LocalEngine",
    "RayEngine",
    "make_engine",
]


def make_engine(
    name: str, job: Job, jobs: int | None, address: str | None, means: FetchOptions | None = None
) -> Engine:
    """Return the engine of this name. ``means`` is the access to remote recordings.

    Raises :class:`UsageError` if Ray is not installed.
    """
    if name == "ray":
        return RayEngine(job, jobs, address, means)
    return LocalEngine(job, jobs or os.cpu_count() or 1, means)


class LocalEngine:
    """Engine with ``jobs`` threads. Each waits for one process at a time."""

    def __init__(self, job: Job, jobs: int, means: FetchOptions | None = None) -> None:
        self._job, self._jobs, self._means = job, jobs, means

    def perform(self, recordings: Sequence[Location]) -> Generator[Outcome, None, None]:
        """Replay the recordings in threads and yield the outcomes."""
        pending: set[Future[Outcome]] = set()
        pool = ThreadPoolExecutor(self._jobs, thread_name_prefix="reenact-regress")
        with closing(fetching_performer(self._job, self._means)) as perform, pool:
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


_INSTALL = "pip install 'reenact[ray]'"
_TRIES = 2
_FAREWELL = 5.0
"""Seconds that actors get to end their processes."""
_HERE, _AFAR = b"here:", b"afar:"
_outcome = msgspec.json.Decoder(Outcome)


class RayEngine:
    """Engine on a Ray cluster.

    It connects to ``address``, or selects a cluster as Ray does: ``RAY_ADDRESS``, a local
    cluster, or a temporary one. It starts ``jobs`` actors, by default one per processor of the
    cluster, and does not wait for actors that cannot be placed.
    """

    def __init__(
        self, job: Job, jobs: int | None, address: str | None, means: FetchOptions | None = None
    ) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ImportError as error:
            raise UsageError(f"ray cannot be loaded: {error}", hint=_INSTALL) from None
        self._job, self._jobs, self._address, self._means = job, jobs, address, means

    def perform(self, recordings: Sequence[Location]) -> Generator[Outcome, None, None]:
        """Replay the recordings on the cluster and yield the outcomes."""
        connected = self._connect()
        actors = _Actors(self._ray, self._job, self._jobs, self._means)
        try:
            yield from actors.perform(recordings)
        finally:
            actors.dismiss()
            if connected:
                self._ray.shutdown()

    def _connect(self) -> bool:
        """Connect to the cluster and return True; return False if there is a connection already."""
        if self._ray.is_initialized():
            return False
        before = signal.getsignal(signal.SIGTERM)
        try:
            self._ray.init(
                address=self._address,
                include_dashboard=False if self._address == "local" else None,
                log_to_driver=False,
                logging_level="ERROR",
            )
        except Exception as error:  # noqa: BLE001 - Ray raises many kinds
            raise UsageError(
                f"no Ray cluster: {_first_line(error)}",
                hint="check --address or RAY_ADDRESS; --address local starts one on this machine",
            ) from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray's handler ends the process without a report
        return True


class _Actors:
    """Actors and the recordings assigned to them."""

    def __init__(self, ray: Any, job: Job, jobs: int | None, means: FetchOptions | None) -> None:
        self._ray = ray
        self._given = (msgspec.json.encode(job), os.getcwd())
        self._private = (_environment(), means)
        self._size = jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._actor = ray.remote(Worker).options(num_cpus=1, max_concurrency=2)
        self._actors: list[Any] = []
        self._ready: list[Any] = []
        self._under_way: dict[Any, tuple[Any, Location | None]] = {}
        self._left: deque[Location] = deque()
        self._losses: Counter[Location] = Counter()

    def perform(self, recordings: Sequence[Location]) -> Generator[Outcome, None, None]:
        self._left.extend(recordings)
        for _ in range(min(self._size, len(self._left))):
            self._hire()
        unfinished = len(self._left)
        while unfinished:
            outcome = self._next()
            if outcome is not None:
                unfinished -= 1
                yield outcome

    def _next(self) -> Outcome | None:
        """Wait for the next result of an actor and return its outcome, if it has one."""
        (ref, *_), _ = self._ray.wait(list(self._under_way))
        actor, recording = self._under_way.pop(ref)
        try:
            result = self._ray.get(ref)
        except self._ray.exceptions.RayActorError as error:
            return self._lose(actor, recording, error)
        if recording is None:
            self._ready.append(actor)
        if self._left:
            self._give(actor, self._left.popleft())
        return None if recording is None else _decoded(result)

    def _lose(self, actor: Any, recording: Location | None, error: Exception) -> Outcome | None:
        """Handle an actor that was lost or could not be started.

        Its recording is tried again. After :data:`_TRIES` losses it has failed.
        """
        self._actors.remove(actor)
        if recording is None:
            raise UsageError(
                f"no worker can be started on the cluster: {_first_line(error)}",
                hint="reenact has to be installed there, as it is here",
            )
        self._ready.remove(actor)
        self._hire()
        self._losses[recording] += 1
        if self._losses[recording] >= _TRIES:
            return _lost(recording, error)
        self._left.append(recording)
        return None

    def _hire(self) -> None:
        actor = self._actor.remote(*self._given)
        self._actors.append(actor)
        self._under_way[actor.ready.remote(*self._private)] = (actor, None)

    def _give(self, actor: Any, recording: Location) -> None:
        ref = actor.perform.remote(_packed(recording))
        self._under_way[ref] = (actor, recording)

    def dismiss(self) -> None:
        """End all actors and the processes that they have started."""
        farewells = [actor.stop.remote() for actor in self._ready]
        if farewells:
            self._ray.wait(farewells, num_returns=len(farewells), timeout=_FAREWELL)
        for actor in self._actors:
            self._ray.kill(actor)


class Worker:
    """Actor on the cluster. Jobs, recordings and outcomes are exchanged as bytes."""

    def __init__(self, job: bytes, folder: str) -> None:
        self._job = msgspec.json.decode(job, type=Job)
        self._folder = folder
        self._perform: FetchingPerformer | None = None
        self._wrong: UsageError | None = None

    def ready(self, environment: dict[str, str], means: FetchOptions | None) -> None:
        """Prepare the actor. Its result shows that the cluster has placed the actor."""
        os.environ.update(environment)
        context = import_module("ray").get_runtime_context()
        if "working_dir" not in context.runtime_env and os.path.isdir(self._folder):
            os.chdir(self._folder)
        try:
            self._perform = fetching_performer(self._job, means)
        except UsageError as error:
            self._wrong = error  # raised by `perform`, which can report it

    def perform(self, packed: bytes) -> bytes:
        """Replay a recording. Return its outcome, or the error that concerns the complete job."""
        recording = _unpacked(packed)
        if isinstance(recording, Path) and not recording.exists():
            return as_line(_out_of_reach(recording))
        try:
            return as_line(self._performer()(recording))
        except UsageError as error:
            return msgspec.json.encode({"message": error.message, "hint": error.hint})

    def _performer(self) -> FetchingPerformer:
        if self._perform is None:
            raise self._wrong or UsageError("an actor was asked before it was ready")
        return self._perform

    def stop(self) -> None:
        """End the replays in progress."""
        if self._perform is not None:
            self._perform.stop()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("REENACT_")}


def _packed(recording: Location) -> bytes:
    """Encode a location. A path can contain any bytes."""
    if isinstance(recording, RemoteRecording):
        return _AFAR + msgspec.json.encode(recording)
    return _HERE + os.fsencode(recording)


def _unpacked(packed: bytes) -> Location:
    if packed.startswith(_AFAR):
        return msgspec.json.decode(packed.removeprefix(_AFAR), type=RemoteRecording)
    return Path(os.fsdecode(packed.removeprefix(_HERE)))


def _decoded(result: bytes) -> Outcome:
    found = msgspec.json.decode(result)
    if "message" in found:
        raise UsageError(found["message"], hint=found["hint"])
    return _outcome.decode(result)


def _out_of_reach(path: Path) -> Outcome:
    return Outcome(
        recording=name_of(path),
        status="unreadable",
        cause="not on the machine of the worker",
        detail=f"there is no {name_of(path)} in {os.getcwd()} on {platform.node()}\n"
        "put the recordings into a folder that all machines of the cluster share, or where each "
        "can get them (s3://…, --from-server), or send them along: "
        "ray job submit --working-dir . -- reenact regress … --engine ray",
    )


def _lost(recording: Location, error: Exception) -> Outcome:
    return Outcome(
        recording=name_of(recording),
        status="failed",
        cause="its worker was lost",
        detail=_first_line(error),
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
