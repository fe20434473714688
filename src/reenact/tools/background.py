"""The commands that go on in the background, each in the session that started it.

They end with that session at the latest; those of no session with the program.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Final
from weakref import WeakKeyDictionary

from reenact.engine.call import CAPABILITIES, Call
from reenact.engine.session.context import current
from reenact.engine.session.session import Session
from reenact.format.event import Data
from reenact.tools.command import Command

__all__ = ["Background", "look"]

FINISHED: Final = 50
"""So many commands that have ended are kept, until they are cleared."""

_SOON: Final = 2.0
"""Seconds within which a command that was killed is gone."""


def look(operation: str, request: Data, live: Callable[[], Data]) -> Data:
    """What ``live`` sees of a command. How far it has come when it is looked at is a matter of
    chance: it is recorded, and served where the tool is made again in a replay."""
    session = current()
    if session is None or session.mode == "off":
        return live()
    call = Call(
        type="nondeterministic",
        capability=CAPABILITIES["process"],
        operation=operation,
        request=request,
        source="process",
    )
    found: Data = session.gateway.call(call, live)
    return found


class Background:
    """The commands of one session, or of none. Thread-safe."""

    def __init__(self) -> None:
        self._commands: dict[str, Command] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._count = 0

    @classmethod
    def here(cls) -> Background:
        """Of the session that is in force here."""
        session = current()
        if session is None or session.mode == "off":
            return cls._alone()
        with _making:
            found = _known.get(session)
            if found is None or found._pid != os.getpid():  # a forked child has none yet
                found = _known[session] = cls()
                session.before_close(found.kill_all)
        return found

    @classmethod
    def _alone(cls) -> Background:
        global _of_none
        with _making:
            if _of_none is None or _of_none._pid != os.getpid():
                _of_none = cls()
                atexit.register(_of_none.kill_all)
            return _of_none

    def add(self, command: Command) -> str:
        """``command`` goes on here. Its id: in a session it tells the lane of its call, which is the
        same in every run."""
        with self._lock:
            name = self._name()
            self._commands[name] = command
            ended = [key for key, one in self._commands.items() if one.ended.is_open]
            for key in ended[:-FINISHED]:
                del self._commands[key]
            return name

    def _name(self) -> str:
        session = current()
        self._count += 1
        if session is None or session.mode == "off":
            return f"exec-{self._count}"
        name = f"exec-{session.lanes.current().name}"
        return name if name not in self._commands else f"{name}-{self._count}"

    def get(self, name: str) -> Command | None:
        """The command with this id."""
        return self._commands.get(name)

    def remove(self, name: str) -> None:
        """Nobody will ask for it any more."""
        with self._lock:
            self._commands.pop(name, None)

    def __iter__(self) -> Iterator[tuple[str, Command]]:
        """With their ids, the one that was started last first."""
        with self._lock:
            return iter(list(reversed(self._commands.items())))

    def kill_all(self) -> None:
        """End them all, and wait until they are gone."""
        if self._pid != os.getpid():
            return
        running = [command for _, command in self if not command.ended.is_open]
        session = current()
        for command in running:
            command.kill()
        with nullcontext() if session is None else session.waiting_elsewhere():
            for command in running:
                command.ended.wait(_SOON)


_making = threading.Lock()
_known: WeakKeyDictionary[Session, Background] = WeakKeyDictionary()
_of_none: Background | None = None
