"""Results that come from other processes: handed to the program one at a time, in the recorded order.

A thread of the pool takes them from a pipe, in the order in which workers are done. In a replay one
that comes early is held until its turn, by a thread of its own: the pool's goes on reading.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING

import msgspec

from reenact.engine.current import outside
from reenact.engine.order import Token
from reenact.engine.processor import introduced
from reenact.engine.waiter import Waiter

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["Arrival"]


class _Held(Waiter):
    """Waits for its turn, or for the end of the recording: then it goes at once."""

    __slots__ = ()

    def __init__(self, token: Token, lane: str, ident: int) -> None:
        super().__init__(token, lane, ident, real=self._go)

    def _go(self) -> None:
        self.hand_over()


class Arrival(msgspec.Struct, frozen=True):
    """Where the result of ``job`` is expected: in ``lane``, where it is called ``name``."""

    session: Session
    job: str
    lane: str
    name: str

    def take(
        self, act: Callable[[], None], later: Callable[[], None] | None = None, part: str = ""
    ) -> None:
        """The result has come, or ``part`` of it: ``act`` gives it to who waits for it. ``later``
        is called instead when it has to be held."""
        session, token = self.session, (self.lane, f"{self.name}{part}")
        conductor = session.conductor
        if not session.paces:
            act()
            return
        conductor.helper_comes()  # until it is given: nobody is cut off meanwhile
        if conductor.order is None:
            self._note(token)
            self._give(act)
        elif session.is_now(token):
            self._give(act)
        else:
            start_new_thread(outside().run, (self._hold, token, later or act))

    def _note(self, token: tuple[str, str]) -> None:
        """Take our turn, and write that."""
        session = self.session
        session.conductor.hand_over(get_ident(), lambda: session.record_delivery(*token))

    def _hold(self, token: tuple[str, str], act: Callable[[], None]) -> None:
        with introduced():
            held = _Held(token, self.lane, get_ident())
            try:
                self.session.conductor.wait(held)
                if held.live:
                    self._note(token)
            except BaseException:  # noqa: BLE001 - the session is over, and who waits has been told
                pass
            self._give(act)

    def _give(self, act: Callable[[], None]) -> None:
        """Whom ``act`` wakes is busy; we are not."""
        conductor = self.session.conductor
        try:
            act()
        finally:
            conductor.arrive(get_ident())
            conductor.helper_goes()
