"""Running the function of a test that is data, and whether it did what was expected."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from reenact.errors import ReenactError

if TYPE_CHECKING:
    from reenact.policy.cases import Case

__all__ = ["run_as_expected"]

_FAILURES = (Exception, SystemExit, pytest.fail.Exception)


def run_as_expected(function: Any, case: Case, place: str) -> None:
    """Call ``function``, to its end if it is asynchronous.

    One that is to fail must raise; what it raises otherwise goes on. A refusal of ours or a
    divergence is not the failure that was meant, unless ``raises`` names it: a test that cannot run
    any more would pass.
    """
    if case.expect != "fail":
        _run(function)
        return
    try:
        _run(function)
    except _FAILURES as error:
        if not _is_meant(error, case.raises):
            error.add_note(f"{place}: expected to fail with {case.raises or 'an error of its own'}")
            raise
        return
    pytest.fail(
        f"{place}: {case.entry} was expected to fail with {case.raises or 'an exception'}, and passed",
        pytrace=False,
    )


def _run(function: Any) -> None:
    outcome = function()
    if inspect.isawaitable(outcome):
        import asyncio

        asyncio.run(_awaited(outcome))


async def _awaited(outcome: Any) -> None:
    await outcome


def _is_meant(error: BaseException, raises: str | None) -> bool:
    if raises is None:
        return not isinstance(error, ReenactError) and not _is_success(error)
    names = {name for kind in type(error).__mro__ for name in _names(kind)}
    return raises in names


def _is_success(error: BaseException) -> bool:
    return isinstance(error, SystemExit) and error.code in (None, 0)


def _names(kind: type[BaseException]) -> tuple[str, str]:
    """``LookupError``, and ``package.module.NotThere``."""
    return kind.__name__, f"{kind.__module__}.{kind.__qualname__}"
