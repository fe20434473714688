"""As whom a link is registered, for all of its threads."""

from __future__ import annotations

import threading

import msgspec

from reenact._system import monotonic
from reenact.audit.keys import Key

__all__ = ["Post", "Registrar"]


class Post(msgspec.Struct, frozen=True):
    """As whom: ``key`` verifies the commands that come."""

    agent_id: str
    epoch: int
    tenant: str
    key: Key


class Registrar:
    """Holds the post that is in force, and lets threads wait for it. Over once it is stopped."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        """Notified when something here, or for whoever waits with it, is new."""
        self._post: Post | None = None
        self._stopped = False

    @property
    def post(self) -> Post | None:
        with self.changed:
            return self._post

    @property
    def is_stopped(self) -> bool:
        with self.changed:
            return self._stopped

    def registered(self, post: Post) -> None:
        """The server knows us."""
        with self.changed:
            self._post = post
            self.changed.notify_all()

    def forgotten(self, post: Post) -> None:
        """The server does not know ``post`` any more: whoever registers has to do so again."""
        with self.changed:
            if self._post == post:
                self._post = None
                self.changed.notify_all()

    def stop(self) -> None:
        """Nobody waits any longer."""
        with self.changed:
            self._stopped = True
            self.changed.notify_all()

    def wait(self) -> Post | None:
        """Wait until registered; None when it is over."""
        with self.changed:
            self.changed.wait_for(lambda: self._stopped or self._post is not None)
            return None if self._stopped else self._post

    def pause(self, seconds: float) -> bool:
        """Wait so long, unless it is over: then False."""
        until = monotonic() + seconds
        with self.changed:
            while not self._stopped and (left := until - monotonic()) > 0:
                self.changed.wait(left)
            return not self._stopped
