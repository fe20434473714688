"""Writing a recording that begins as another one does."""

from __future__ import annotations

from reenact.format.event import Data, Draft
from reenact.format.manifest import Flag, Manifest, Seed
from reenact.store.copying import Copier
from reenact.store.journal import Note
from reenact.store.seal import Seal
from reenact.store.sink import CopySink, Status, watch_forks
from reenact.store.source import SeekableSource

__all__ = ["BranchSink"]


class BranchSink:
    """Takes events of ``source`` and new ones. The contract is that of
    :class:`reenact.store.sink.Sink`.

    ``source`` is a reader of its own, which the caller closes. Events before ``cut`` are copied at
    once, as they are; ``cut`` is 0 in a process that joins a recording where that has been done.
    """

    def __init__(
        self, sink: CopySink, source: SeekableSource, cut: int, *, seal: Seal | None = None
    ) -> None:
        self._sink = sink
        self._source = source
        self._cut = cut
        self._seal = seal
        self._copier: Copier | None = None
        watch_forks(self)

    def start(self, seed: Seed) -> None:
        """Start the sink, and copy what comes before the point."""
        self._sink.start(seed)
        copier = self._copier = Copier(self._source, self._sink, self._seal)
        for seq in range(1, self._cut):
            copier.copy(seq)

    def copy(self, seq: int, fields: Data | None = None) -> int:
        """Append event ``seq`` of ``source``, which was used after the point: see
        :meth:`Copier.copy`. What a tool did inside stays behind."""
        assert self._copier is not None
        return self._copier.copy(seq, {**(fields or {}), "inner": None})

    def leave_out(self, seq: int) -> None:
        """What is not copied is not there."""

    def note(self, event: Draft) -> int:
        """See :class:`reenact.store.copying.LateSink`: here there is always something new."""
        return self._sink.append(event)

    def append(self, event: Draft) -> int:
        """Append a new event."""
        return self._sink.append(event)

    def begin(self, event: Draft, position: int) -> Note | None:
        """See :class:`reenact.store.sink.Sink`."""
        return self._sink.begin(event, position)

    def flag(self, flag: Flag) -> None:
        """See :class:`reenact.store.sink.Sink`."""
        self._sink.flag(flag)

    def after_fork(self) -> None:
        """In a forked child: it reads with a reader of its own."""
        if self._copier is not None:
            self._source = self._source.reopen()
            self._copier = Copier(self._source, self._sink, self._seal)

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        """See :class:`reenact.store.sink.Sink`."""
        return self._sink.finalize(status, error)

    def leave(self) -> None:
        """See :class:`reenact.store.sink.Sink`."""
        self._sink.leave()

    def discard(self) -> None:
        """See :class:`reenact.store.sink.Sink`."""
        self._sink.discard()
