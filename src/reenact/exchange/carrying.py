"""Where exchanges go when there is no server: a folder."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from reenact._system import entropy
from reenact.exchange.link.ports import LinkStatus
from reenact.exchange.model import Exchange
from reenact.store.warning import Warn, print_warning

__all__ = ["Folder"]


class Folder:
    """A carrier that keeps: ``exchanges/<id>.json``, and beside it ``captures/<id>/``."""

    def __init__(self, folder: Path, warn: Warn = print_warning) -> None:
        self._exchanges = folder / "exchanges"
        self._captures = folder / "captures"
        self._warn = warn
        self._dropped = 0

    def start(self) -> None:
        """Nothing runs."""

    def place(self) -> Path:
        """See :class:`reenact.exchange.link.ports.Carrier`."""
        try:
            self._captures.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._drop(error)
        return self._captures / f"new-{entropy(8).hex()}"

    def offer(self, exchange: Exchange, capture: Path | None) -> None:
        """See :class:`reenact.exchange.link.ports.Carrier`."""
        target = self._exchanges / f"{exchange.exchange_id}.json"
        try:
            self._exchanges.mkdir(parents=True, exist_ok=True)
            if capture is not None:
                capture.rename(self._captures / exchange.exchange_id)
            beside = target.with_suffix(".part")
            beside.write_bytes(msgspec.json.encode(exchange))
            os.replace(beside, target)
        except OSError as error:
            self._drop(error)

    def _drop(self, error: OSError) -> None:
        self._dropped += 1
        if self._dropped == 1:
            self._warn(f"exchanges cannot be kept in {self._exchanges.parent}: {error.strerror}")

    def exchanges(self) -> list[Exchange]:
        """What is there, in the order of its start."""
        files = sorted(self._exchanges.glob("*.json"))
        found = [msgspec.json.decode(path.read_bytes(), type=Exchange) for path in files]
        return sorted(found, key=lambda one: (one.started_at, one.exchange_id))

    def capture_of(self, exchange_id: str) -> Path | None:
        """The recording of an exchange, if it has one."""
        found = self._captures / exchange_id
        return found if found.is_dir() else None

    def status(self) -> LinkStatus:
        """See :class:`reenact.exchange.link.ports.Carrier`."""
        return LinkStatus(state="connected", dropped=self._dropped)

    def after_fork(self) -> None:
        """Every exchange has a file of its own."""

    def close(self, timeout: float) -> None:
        """Everything is there already."""
