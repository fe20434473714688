"""The other side of a boundary, with its answers written down beforehand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

__all__ = ["Asked", "Scripted"]


class Asked(NamedTuple):
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Scripted:
    """Gives ``answers`` one after another; one that is an exception (or a class of them) is raised.

    The object itself is the function, :attr:`aio` the same as a coroutine function; both take any
    arguments and remember them in :attr:`asked`. Being asked more often than there are answers is
    an :class:`AssertionError`, and so is ending with answers left: call :meth:`check`, or use it as
    a context manager. ``check`` also fails for a call too many that the program has swallowed.
    Thread-safe.
    """

    def __init__(self, *answers: Any, name: str = "the other side") -> None:
        self.name = name
        self.asked: list[Asked] = []
        self._answers: Sequence[Any] = answers
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            number = len(self.asked)
            self.asked.append(Asked(args, kwargs))
        if number >= len(self._answers):
            raise AssertionError(self._too_often())
        answer = self._answers[number]
        if _is_exception(answer):
            raise answer
        return answer

    async def aio(self, *args: Any, **kwargs: Any) -> Any:
        """Async variant of calling the peer."""
        return self(*args, **kwargs)

    @property
    def left(self) -> int:
        """Return the number of unused results."""
        return max(0, len(self._answers) - len(self.asked))

    def check(self) -> None:
        """Raise :class:`AssertionError` unless it was asked exactly as often as scripted."""
        if len(self.asked) > len(self._answers):
            raise AssertionError(self._too_often())
        if self.left:
            raise AssertionError(
                f"{self.name} has {self.left} of {len(self._answers)} answers left: the program "
                f"asked {len(self.asked)} times; script fewer answers, or find the missing calls"
            )

    def _too_often(self) -> str:
        last = self.asked[-1]
        return (
            f"{self.name} has {len(self._answers)} answers and was asked {len(self.asked)} times, "
            f"the last time with {last.args!r} {last.kwargs!r}; script more answers, or find the "
            "call too many"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.check()


def _is_exception(answer: Any) -> bool:
    if isinstance(answer, type):
        return issubclass(answer, BaseException)
    return isinstance(answer, BaseException)
