"""Performer that downloads remote recordings before it replays them."""

from __future__ import annotations

import os
import platform
import shutil
import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from reenact.errors import (
    RecordingError,
    ReenactError,
    ServerMisused,
    ServerRefused,
    ServerUnusable,
    SinkError,
    SinkUnwritable,
)
from reenact.runs.regression.jobs import Job, Performer, make_performer
from reenact.runs.regression.outcomes import Outcome, unreadable
from reenact.runs.remote.cache import MOST, Cache, cache_folder
from reenact.runs.remote.location import (
    GIVEN,
    RECORDING,
    Location,
    Opener,
    RemoteRecording,
    RemoteStore,
)
from reenact.store.verify import verify

__all__ = ["FetchOptions", "FetchingPerformer", "fetching_performer"]

_SOON: Final = frozenset({"rate_limited", "unavailable"})
"""Error codes of a server that is temporarily unavailable."""
_TEXTS: Final = ("cause", "detail", "gist")
_OURS: Final = (RecordingError, SinkError, ServerMisused, ServerRefused, ServerUnusable)


class FetchOptions:
    """Access to remote recordings, on any machine.

    ``opener`` converts ``access`` to stores. ``secrets`` are its confidential parts, which are
    removed from all outcomes. ``folder`` is the cache, with about ``most`` bytes at most.
    """

    def __init__(
        self,
        opener: Opener,
        access: bytes,
        *,
        secrets: tuple[str, ...] = (),
        folder: str | None = None,
        most: int = MOST,
    ) -> None:
        self.opener, self.access, self.secrets = opener, access, secrets
        self.folder, self.most = folder, most

    def __repr__(self) -> str:
        return "FetchOptions(…)"


def fetching_performer(job: Job, means: FetchOptions | None) -> FetchingPerformer:
    """Return a performer of ``job`` on this machine. Raises :class:`UsageError`."""
    return FetchingPerformer(make_performer(job), means)


class FetchingPerformer:
    """Performer of local and remote recordings.

    Remote ones are downloaded first. ``pauses`` are the seconds between attempts to reach a
    store.
    """

    def __init__(
        self, perform: Performer, means: FetchOptions | None, pauses: tuple[float, ...] = (0.5, 2.0)
    ) -> None:
        self._perform = perform
        self._pauses = pauses
        self._stopped = threading.Event()
        self._stopping: Future[None] = Future()
        self._away = False
        self._secrets: tuple[str, ...] = ()
        if means is not None:
            self._libraries = means.opener(means.access)
            self._secrets = means.secrets
            folder = Path(means.folder) if means.folder else cache_folder(os.environ)
            self._cache = Cache(folder.absolute(), means.most)

    def __call__(self, recording: Location) -> Outcome:
        """Replay a recording and return its outcome.

        Raises :class:`UsageError` for an invalid job.
        """
        if isinstance(recording, Path):
            return self._hidden(self._perform(recording))
        with ExitStack() as held:
            try:
                entry = held.enter_context(self._entry(recording))
            except _OURS as error:
                return self._hidden(_not_got(recording, error))
            except OSError as error:
                return self._hidden(
                    _not_got(recording, _unwritable_cache(self._cache.folder, error))
                )
            return self._hidden(self._performed(recording, entry))

    def _entry(self, remote: RemoteRecording) -> AbstractContextManager[Path]:
        library = self._libraries[remote.keeper]
        return self._cache.holding(
            remote.key, lambda folder: self._fetch(library, remote, folder), _is_whole
        )

    def _fetch(self, library: RemoteStore, remote: RemoteRecording, folder: Path) -> None:
        """Download with retries.

        After the last retry of a download has failed, later downloads are only tried once until one
        succeeds.
        """
        for seconds in (*(() if self._away else self._pauses), None):
            try:
                self._try(library, remote, folder)
            except (ServerRefused, ServerUnusable) as error:
                if not _is_passing(error):
                    raise
                if seconds is None or self._stopped.wait(seconds):
                    self._away = True
                    raise
                _empty(folder)
            else:
                self._away = False
                return

    def _try(self, library: RemoteStore, remote: RemoteRecording, folder: Path) -> None:
        """Download in a separate thread, which is abandoned when the regression is stopped, because
        a server can take a minute to respond."""
        done: Future[None] = Future()

        def work() -> None:
            try:
                library.fetch(remote, folder)
            except BaseException as error:  # noqa: BLE001 - the waiting caller raises it
                done.set_exception(error)
            else:
                done.set_result(None)

        if not self._stopped.is_set():
            threading.Thread(target=work, name="reenact-pull", daemon=True).start()
        wait([done, self._stopping], return_when=FIRST_COMPLETED)
        if not done.done():
            raise ServerUnusable(
                f"{remote.name} was not got: all is stopped", hint="start it again"
            )
        done.result()

    def _performed(self, remote: RemoteRecording, entry: Path) -> Outcome:
        path, given = entry / RECORDING, entry / GIVEN
        outcome = self._perform(path, given.read_bytes() if given.exists() else None)
        outcome.recording = remote.name
        for field in _TEXTS:
            text = getattr(outcome, field)
            setattr(outcome, field, text.replace(str(path), remote.name))
        return outcome

    def _hidden(self, outcome: Outcome) -> Outcome:
        """Remove the secrets from an outcome, because a program can print anything it finds."""
        for secret in self._secrets:
            for field in _TEXTS:
                setattr(outcome, field, getattr(outcome, field).replace(secret, "…"))
        return outcome

    def stop(self) -> None:
        """Abandon the downloads and end the replays in progress."""
        self._stop_pulling()
        self._perform.stop()

    def close(self) -> None:
        """Abandon the downloads and close the performer."""
        self._stop_pulling()
        self._perform.close()

    def _stop_pulling(self) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            self._stopping.set_result(None)


def _is_passing(error: ReenactError) -> bool:
    return isinstance(error, ServerUnusable) or error.fields.get("problem") in _SOON


def _is_whole(entry: Path) -> bool:
    """Return True if the cached recording is intact."""
    try:
        verify(entry / RECORDING)
    except RecordingError:
        return False
    return True


def _empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir(mode=0o700)


def _not_got(remote: RemoteRecording, error: ReenactError) -> Outcome:
    """Return the outcome of a failed download.

    It is tried again on resume, unless the recording itself is the reason.
    """
    outcome = unreadable(remote, error)
    outcome.away = not isinstance(error, RecordingError)
    if outcome.away:
        outcome.detail += f"\nasked from {platform.node()}"
    return outcome


def _unwritable_cache(folder: Path, error: OSError) -> SinkUnwritable:
    return SinkUnwritable(
        f"{folder} cannot keep it: {error.strerror or type(error).__name__}",
        hint="free disk space there, or choose a different folder: --cache DIR",
    )
