"""What a session knows: its fields, whether it is open, and who runs in it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from reenact._system import process_id
from reenact.engine.conductor import Conductor
from reenact.engine.divergence import Divergence
from reenact.engine.ending import Ending
from reenact.engine.explicit import Explicit
from reenact.engine.gateway import Gateway
from reenact.engine.keeping import Keeper
from reenact.engine.lanes import Lanes, running_loop
from reenact.engine.machine import Machine
from reenact.engine.opening import Opened as Parts
from reenact.engine.recorder import Opened, Recorder
from reenact.engine.rendering import render
from reenact.engine.settings import Settings
from reenact.errors import BudgetExceeded, DivergenceError, PolicyRefused, SessionClosed, UsageError
from reenact.format.manifest import Flag
from reenact.policy.matching import Comparer

if TYPE_CHECKING:
    from reenact.engine.branching import Branching
    from reenact.engine.desk import Desk
    from reenact.engine.draws import Draws
    from reenact.store.source import SeekableSource

__all__ = ["State"]

_ident = threading.get_ident
_SHOWN = 20


class State(Explicit):
    """The first layer of a session: what it was told, what it holds, and whether it is open."""

    comparer: Comparer
    gateway: Gateway
    machine: Machine
    conductor: Conductor
    recorder: Recorder
    writes: bool
    draws: Draws
    paces: bool
    _enacts: bool
    """Is a recorded order of deliveries enacted?"""
    run_seed: str

    def __init__(self, settings: Settings, parts: Parts | None = None) -> None:
        self.settings = settings
        self.mode = settings.mode
        if parts is None or not parts.is_brief:
            self.gateway = Gateway(self._me())
        self.lanes = Lanes()
        self.lock = threading.RLock()
        self.approximate = ""
        """Why the recorded order is not exact, if it is not."""
        self.told: Any = None
        """What the program knows of the machine, see :mod:`reenact.boundaries.host.told`."""
        self.last_clock: float | None = None
        self.full: BudgetExceeded | None = None
        """In a replay: the recording was full from here on."""
        self.asks_again = False
        """In a replay: a rule wants something to be really asked again, outside of the session."""
        self._given_parts = parts
        self._parts: Parts | None = None
        self._desks: dict[int, Desk] = {}
        self._under_way: dict[int, tuple[Opened, Callable[[], None] | None]] = {}
        self._deferred: deque[Callable[[], None]] = deque()
        self._before_close: list[Callable[[], None]] = []
        self.poison: Divergence | None = None
        """A strict session has diverged: every later call raises this again."""
        self.given_up = ""
        """Why an update cannot be kept, if it cannot."""
        self._keeper: Keeper | None = None
        self.branching: Branching | None = None
        """Where and how the run is forked, if it is."""
        self._ending = Ending()
        self._state = "new"
        self._before: list[tuple[Any, Any]] = []
        self._pid = process_id()
        self._warned: set[str] = set()

    def before_close(self, act: Callable[[], None]) -> None:
        """Do ``act``, which raises nothing, when the body has been left: the session is still open,
        and in force."""
        self._before_close.append(act)

    def check_open(self) -> None:
        """Raise what a call raises after the end, and after a strict divergence."""
        if self.poison is not None:
            raise DivergenceError(self.poison, render(self.poison))
        if self._state != "open":
            raise self._closed()

    def _check_opened(self) -> None:
        if self._state == "new":
            raise self._closed()

    def _closed(self) -> SessionClosed:
        if self._state == "new":
            return SessionClosed(
                f"this session ({self.mode}) has not been opened", hint="with session: …"
            )
        return SessionClosed(
            f"this session ({self.mode}) has been closed, and a call came after its end",
            hint="wait for threads and tasks before the session ends",
        )

    def is_late(self) -> bool:
        """Has the session ended, and may the call be made all the same? Never in a replay."""
        if self._state != "closed" or self.mode == "replay":
            return False
        self.warn_once("a call came after the end of its session: it is made and not recorded")
        return True

    @property
    def source(self) -> SeekableSource | None:
        """The recording that is read."""
        return None if self._parts is None else self._parts.source

    @property
    def free_draws(self) -> set[str]:
        """See :attr:`reenact.engine.opening.Opened.free`."""
        return set() if self._parts is None else self._parts.free

    @property
    def run_id(self) -> str:
        """The id of the recorded run: of the recording that is read, else of the one that is
        written; empty where there is neither."""
        parts = self._parts
        if parts is None:
            return ""
        return parts.run_id if parts.source is None else parts.source.manifest().run_id

    # Who runs

    def runner(self) -> int | Desk:
        """This thread, or the loop that it runs."""
        loop = running_loop()
        return _ident() if loop is None else self.desk(loop)

    def running_desk(self) -> Desk:
        """The desk of the loop that runs here."""
        loop = running_loop()
        if loop is None:
            raise UsageError(
                "a coroutine goes through this session, and no asyncio loop runs here",
                hint="run it with asyncio (or anyio on asyncio); trio is not covered",
            )
        return self.desk(loop)

    def desk(self, loop: Any) -> Desk:
        """The desk of ``loop``."""
        found = self._desks.get(id(loop))
        if found is None or found.loop is not loop:
            from reenact.engine.desk import Desk  # with asyncio, which not every program has

            with self.lock:
                self._desks = {
                    key: desk for key, desk in self._desks.items() if not desk.loop.is_closed()
                }
                found = Desk(loop, self._me())
                self._desks[id(loop)] = found
                self.conductor.add_desk(found)
        return found

    def schedule_is_approximate(self, why: str) -> None:
        """The order of deliveries is not exact from here on."""
        if not self.approximate:
            self.approximate = why
            if self.writes and self._parts is not None and self._parts.sink is not None:
                self._parts.sink.flag(Flag.APPROXIMATE)
            self.warn(f"{why}: the order in which answers arrive is recorded approximately")

    # What it says

    def redacted(self, error: PolicyRefused) -> PolicyRefused:
        """``error`` without secrets: the name of an operation may be anything."""
        message = self.redacted_text(error.message)
        if message == error.message:
            return error
        return type(error)(message, hint=self.redacted_text(error.hint))

    def redacted_text(self, text: str) -> str:
        """``text`` without secrets."""
        return text if self._parts is None else self._parts.redactor.text(text)

    def hides(self, name: str) -> bool:
        """Is what stands under ``name``, say of an environment variable, never written?"""
        return self._parts is not None and self._parts.redactor.hides(name)

    def suspects(self, text: bytes) -> bool:
        """May there be a secret in ``text``?"""
        return self._parts is not None and self._parts.redactor.suspects(text)

    def redacts(self, text: bytes) -> bool:
        """Is there a secret in ``text``, the bytes of a leaf?"""
        if self._parts is None or not self._parts.redactor.suspects(text):
            return False
        return bool(self._parts.redactor.redact(text).marks)

    @property
    def keeps_secrets(self) -> bool:
        """May anything be written as it is?"""
        return self._parts is not None and self._parts.redactor.profile == "none"

    def warn(self, text: str) -> None:
        """Say something to the person at the screen; secrets are taken out."""
        self.settings.warn(self.redacted_text(text))

    def warn_once(self, text: str) -> None:
        """The same, once per text."""
        if text not in self._warned and len(self._warned) < _SHOWN:
            self._warned.add(text)
            self.warn(text)
