"""The link of an app to its server: see :class:`Link`."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from reenact._system import Now, entropy, start_clock
from reenact.audit.keys import Key
from reenact.exchange.link.address import Secret, parse_address
from reenact.exchange.link.limits import Limits
from reenact.exchange.link.notices import Notices
from reenact.exchange.link.own import apart
from reenact.exchange.link.ports import LinkStatus, Runner
from reenact.exchange.link.works import Plan, Works
from reenact.exchange.model import Exchange, Registration
from reenact.format.building import build_structs
from reenact.store.buffered_sink import Contents
from reenact.store.warning import Warn, print_warning

__all__ = ["Link"]


def _wall_clock() -> int:
    """Read anew each time: an app runs for months."""
    return start_clock()()


class Link:
    """A :class:`~reenact.exchange.link.ports.Carrier` to the server at ``server``.

    ``registration()`` says what the app is now, and is asked at every heartbeat; the agent's id in
    it is the link's own, one for each process, kept in ``folder``, which the processes of an app
    share. ``command_key`` pins the key of the server's commands (``name+id+base64``); without it,
    the one that the server gives at registration is trusted.

    Nothing is opened before it is used. Raises :class:`UsageError` for a server or a key that is
    none, :class:`AuditInvalid` for such a ``command_key``.
    """

    def __init__(
        self,
        server: str,
        key: str,
        registration: Callable[[], Registration],
        runner: Runner,
        folder: Path,
        *,
        command_key: str | None = None,
        limits: Limits | None = None,
        warn: Warn = print_warning,
        now: Now | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._plan = Plan(
            address=parse_address(server),
            key=Secret(key),
            registration=registration,
            runner=runner,
            folder=folder.absolute(),
            limits=limits or Limits(),
            pinned=None if command_key is None else Key.from_text(command_key),
            notices=Notices(warn),
            now=now or _wall_clock,
            tls=tls,
        )
        self._warn = warn
        self._reset()

    def _reset(self, *, starts: bool = False) -> None:
        self._lock = threading.RLock()
        self._works: Works | None = None
        self._at_work: Works | None = None
        """The same once it has been started, until the link is closed: known without the lock."""
        self._starts = starts
        self._started = False
        self._closed = False
        self._dropped = 0

    def __repr__(self) -> str:
        return f"<Link to {self._plan.address}>"

    def start(self) -> None:
        """Begin to carry. Twice is once."""
        if self._at_work is not None:
            return
        build_structs()
        with self._lock:
            self._starts = True
        apart(self._opened)

    def place(self) -> Path:
        """A path for one exchange's capture, where nothing is yet."""
        works = self._at_work or apart(self._opened)
        if works is None:
            return self._plan.folder / "nowhere" / entropy(8).hex()
        return works.spool.place()

    def offer(self, exchange: Exchange, capture: Path | Contents | None) -> None:
        """Take ``exchange``, and its recording with it."""
        works = self._at_work or apart(self._opened)
        if works is None:
            with self._lock:
                self._dropped += 1
        else:
            apart(works.spool.offer, exchange, capture)

    def status(self) -> LinkStatus:
        """How it is doing."""
        with self._lock:
            works = self._works
        if works is not None:
            return works.status()
        return LinkStatus(
            state="closed" if self._closed else "new",
            dropped=self._dropped,
            error=self._plan.notices.last,
        )

    def close(self, timeout: float) -> None:
        """Send what can be sent within ``timeout`` seconds, and end. Twice is once."""
        with self._lock:
            closed, self._closed = self._closed, True
            works, self._at_work = self._works, None
        if works is not None and not closed:
            apart(works.close, timeout)

    def after_fork(self) -> None:
        """In a forked child: start afresh, as an agent of its own, when it is next used."""
        works, starts = self._works, self._starts and not self._closed
        self._plan = msgspec.structs.replace(self._plan, notices=Notices(self._warn))
        self._reset(starts=starts)
        if works is not None:
            works.abandon()

    def _opened(self) -> Works | None:
        """The parts, at work if they shall be. None where there is no place for them."""
        with self._lock:
            if self._closed:
                return None
            try:
                if self._works is None:
                    self._works = Works.open(self._plan)
                    self._plan.notices.well("folder")
                    self._say_if_open_to_all()
            except OSError as error:
                self._plan.notices.warn(
                    "folder",
                    f"exchanges are not recorded: {self._plan.folder} cannot be used "
                    f"({error.strerror or error})",
                )
            if self._works is not None and self._starts and not self._started:
                self._started = True
                self._start(self._works)
                self._at_work = self._works
            return self._works

    def _start(self, works: Works) -> None:
        try:
            works.start()
        except RuntimeError as error:  # Python is ending, and starts no threads any more
            self._plan.notices.note("threads", str(error))

    def _say_if_open_to_all(self) -> None:
        if not self._plan.address.is_private:
            self._plan.notices.warn(
                "address",
                f"{self._plan.address} is not https: the agent's key can be read on its way",
            )
            self._plan.notices.well("address")
