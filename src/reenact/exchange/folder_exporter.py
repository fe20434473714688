"""Exporter that writes exchanges to a folder, for an agent without a server."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from reenact._system import entropy
from reenact.exchange.client.interface import ClientStatus
from reenact.exchange.model import Exchange
from reenact.store.files import EVENTS, MANIFEST, PRIVATE_FILE, create_private, make_private_folder
from reenact.store.sinks.buffered import Contents
from reenact.store.warning import Warn, print_warning

__all__ = ["FolderExporter"]

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


class FolderExporter:
    """Folder of exchanges: ``exchanges/<any>.jsonl`` with a line for each exchange, one file for
    each process, and ``captures/<id>/``.

    A file for each exchange would be slow: creating a file takes longer than recording an exchange
    without calls.
    """

    def __init__(self, folder: Path, warn: Warn = print_warning) -> None:
        self._exchanges = folder / "exchanges"
        self._captures = folder / "captures"
        self._warn = warn
        self._dropped = 0
        self._warned = False
        self._lock = threading.Lock()  # covers the file
        self._file = -1
        self._size = 0

    def start(self) -> None:
        """Do nothing, because the folder has no threads."""

    def place(self) -> Path:
        """Return a new path for a capture."""
        return self._captures / f"new-{entropy(8).hex()}"

    def offer(self, exchange: Exchange, capture: Path | Contents | None) -> None:
        """Store an exchange and its recording."""
        try:
            if capture is not None:
                self._keep(capture, self._captures / exchange.exchange_id)
        except OSError as error:
            why = f"its calls could not be recorded: {error.strerror}"
            exchange = msgspec.structs.replace(exchange, not_replayable=why)
            self._complain(error)
        line = msgspec.json.encode(exchange) + b"\n"
        try:
            with self._lock:
                self._append(line)
        except OSError as error:
            self._drop(error)

    @staticmethod
    def _keep(capture: Path | Contents, folder: Path) -> None:
        """Store a capture. The manifest is written last, so a folder with a manifest is complete.
        Raises OSError."""
        if isinstance(capture, Path):
            capture.rename(folder)
            return
        make_private_folder(folder.parent)
        make_private_folder(folder, exist_ok=False)
        for name, content in ((EVENTS, capture.events), (MANIFEST, capture.manifest)):
            with open(create_private(folder / name, os.O_EXCL), "wb") as file:
                file.write(content)

    def _append(self, line: bytes) -> None:
        """Append a complete line, or nothing."""
        if self._file < 0:
            make_private_folder(self._exchanges)
            self._file = os.open(
                self._exchanges / f"{entropy(8).hex()}.jsonl", _FLAGS, PRIVATE_FILE
            )
            self._size = 0
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)

    def _drop(self, error: OSError) -> None:
        self._dropped += 1
        self._complain(error)

    def _complain(self, error: OSError) -> None:
        """Warn once."""
        if not self._warned:
            self._warned = True
            self._warn(f"exchanges cannot be stored in {self._exchanges.parent}: {error.strerror}")

    def exchanges(self) -> list[Exchange]:
        """Return the stored exchanges, in the order of their start."""
        return sorted(self._all(), key=lambda one: (one.started_at, one.exchange_id))

    def _all(self) -> Iterator[Exchange]:
        decode = msgspec.json.Decoder(Exchange).decode
        for path in sorted(self._exchanges.glob("*.jsonl")):
            lines = path.read_bytes().split(b"\n")
            yield from map(decode, lines[:-1])  # the last one is empty, or still being written

    def capture_of(self, exchange_id: str) -> Path | None:
        """Return the recording of an exchange, or None."""
        found = self._captures / exchange_id
        return found if found.is_dir() else None

    def status(self) -> ClientStatus:
        """Return the state."""
        return ClientStatus(state="connected", dropped=self._dropped)

    def after_fork(self) -> None:
        """Open a new file in a forked child."""
        self._lock = threading.Lock()
        self._release()

    def close(self, timeout: float) -> None:
        """Close the file. All exchanges are written already."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
