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
    """Scripted peer that returns ``answers`` one after another. An answer that is an exception, or
    an exception class, is raised.

    The object itself is the function, and :attr:`aio` is its coroutine variant. Both accept any
    arguments and store them in :attr:`asked`. A call without a remaining answer raises
    :class:`AssertionError`. To detect unused answers, call :meth:`check` or use the object as a
    context manager. ``check`` also fails for an excess call whose error the program has swallowed.
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
        """Raise :class:`AssertionError` unless the number of calls equals the number of answers."""
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
