"""The iterator of a tool, drawn from step by step in the tool's own lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reenact.engine.current import enter, leave
from reenact.engine.lanes import Lane
from reenact.engine.pieces import END
from reenact.engine.recorder import Opened

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = ["Steps"]


class Steps:
    """Between two steps the consumer goes on, which is in another lane."""

    def __init__(self, session: Session, opened: Opened, live: Callable[[], Any]) -> None:
        assert opened.inner is not None
        self.returned: Any = None
        """What a generator returned at its end."""
        self._session = session
        self._lane = Lane(opened.inner)
        self._live = live
        self._pieces: Any = None

    def next(self) -> Any:
        """The next piece, or ``END``. Raises what the iterator raises."""
        with self._inside():
            if self._pieces is None:
                self._pieces = iter(self._live())
            try:
                return next(self._pieces)
            except StopIteration as stop:
                self.returned = stop.value
                return END

    def close(self) -> None:
        """Nobody draws from it any more."""
        if hasattr(self._pieces, "close"):
            with self._inside():
                self._pieces.close()

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """In the session, too: one that was forgotten may be closed from anywhere."""
        token = enter(self._session)
        try:
            with self._session.lanes.inside(self._lane):
                yield
        finally:
            leave(token)

    async def anext(self) -> Any:
        """:meth:`next` of an asynchronous iterator."""
        with self._inside():
            if self._pieces is None:
                self._pieces = aiter(self._live())
            return await anext(self._pieces, END)

    async def aclose(self) -> None:
        """:meth:`close` of an asynchronous iterator."""
        if hasattr(self._pieces, "aclose"):
            with self._inside():
                await self._pieces.aclose()
