"""Session of one test, opened before its fixtures and closed after them.

It is active only while code of the test runs. Code of pytest and its plugins in between is not
recorded.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import pytest

from reenact.errors import DivergenceError, UsageError

if TYPE_CHECKING:
    from reenact.engine.session.session import Session
    from reenact.pytest_plugin.cassette import Choice

__all__ = [
    "ITEM_SESSION",
    "SEED",
    "ItemSession",
    "release_patches",
    "seed_again",
    "seed_fixture",
    "seed_of",
]


class ItemSession:
    """Session of one run of one test, and its state for pytest."""

    def __init__(self, item: pytest.Item) -> None:
        self.item = item
        self.session: Session | None = None
        self.choice: Choice | None = None
        self.notes: list[str] = []
        self.where = ""
        """Stack of the user's code at the first divergence of a strict replay."""
        self.error: BaseException | None = None
        """First exception of the test or its set-up."""
        self.is_open = False
        self._patches: list[Any] = []
        self._separate: tuple[tempfile.TemporaryDirectory[str], Path] | None = None

    # Opening and closing

    def open(self) -> Session:
        """Open the session of the test. Raises an error if it can have none."""
        from reenact.pytest_plugin.cassette import choose_for, open_session
        from reenact.pytest_plugin.patches import make_patches

        self.choice = choose_for(self.item)
        seed_again(self.item)
        self.session = open_session(self.item, self.choice, self._tape(self.choice), self)
        for patch in make_patches():
            patch.install()
            self._patches.append(patch)
        self.is_open = True
        if HELD_PATCHES not in self.item.config.stash:
            self.item.config.stash[HELD_PATCHES] = self.session.keep_patches()
        vars(self.item)["runtest"] = self._run_with(self.item.runtest)
        return self.session

    def _tape(self, choice: Choice) -> Path:
        """Return the file of the session.

        A part of a shared cassette is written to a temporary file.
        """
        part = choice.part
        if part is None or not choice.writes:
            return choice.path
        folder = tempfile.TemporaryDirectory(prefix="reenact-", ignore_cleanup_errors=True)
        self._separate = folder, Path(folder.name) / "part.jsonl"
        if choice.mode in ("record_missing", "update"):
            part.take_out(self._separate[1])
        return self._separate[1]

    def _put_back(self) -> None:
        if self._separate is None or self.choice is None or self.choice.part is None:
            return
        folder, tape = self._separate
        if self.session is not None and self.session.manifest is not None:
            self.choice.part.put_back(tape)
        folder.cleanup()

    def close(self) -> None:
        """Close the session.

        Raises :class:`DivergenceError` if the replay diverged, unless the test has already failed.
        """
        if not self.is_open or self.session is None:
            return
        self.is_open = False
        vars(self.item).pop("runtest", None)
        for patch in reversed(self._patches):
            patch.remove()
        error = None if self._is_expected() else self.error
        count = len(self.notes)
        try:
            self.session.__exit__(
                type(error) if error is not None else None,
                error,
                error.__traceback__ if error is not None else None,
            )
        except DivergenceError as divergence:
            if self.error is None:
                raise self._with_details(divergence) from None
        self._put_back()
        if self.was_skipped:
            del self.notes[count:]  # notes about a missing recording would only repeat the skip

    def _with_details(self, error: DivergenceError) -> DivergenceError:
        """Return an error with all details if one unused call is the only divergence."""
        from reenact.engine.divergence.model import Divergence
        from reenact.engine.divergence.text_renderer import render_divergence

        found = error.divergence
        if self.session is None or not isinstance(found, Divergence):
            return error
        if self.session.report().unused != 1 or len(self.session.divergences()) != 1:
            return error
        return DivergenceError(found, render_divergence(found))

    @property
    def was_skipped(self) -> bool:
        """Return True if the test was skipped."""
        return isinstance(self.error, pytest.skip.Exception)

    def _is_expected(self) -> bool:
        """Return True for a test marked ``xfail``. The recording of its failure is kept."""
        return self.item.get_closest_marker("xfail") is not None

    def place(self) -> str:
        """Return the path of the cassette relative to the root of the tests; empty if unknown."""
        if self.choice is None:
            return ""
        from reenact.pytest_plugin.cassette import path_from_root

        return path_from_root(self.item, self.choice.path)

    # Activation

    def resume(self) -> None:
        """Activate the session for code of the test."""
        if self.is_open:
            from reenact.engine.session.context import VARIABLE

            VARIABLE.set(self.session)

    def suspend(self) -> None:
        """Deactivate the session for code of pytest."""
        from reenact.engine.session.context import VARIABLE

        if VARIABLE.get() is self.session:
            VARIABLE.set(None)

    def fail(self, error: BaseException) -> None:
        """Store the first error of the test. A skip or an interruption is an error, too."""
        if self.error is None:
            self.error = error

    def heard(self, error: BaseException) -> None:
        """Store the location of the first divergence, because the program may catch the error."""
        if not self.where and isinstance(error, DivergenceError):
            from reenact.pytest_plugin.failure_report import own_stack

            self.where = own_stack()

    def _run_with(self, runtest: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            seed_again(self.item)
            self.resume()
            try:
                self._check_loop()
                runtest()
            except BaseException as error:
                self.fail(error)
                raise
            finally:
                self.suspend()
                self.item.addfinalizer(self.resume)  # before finalizers of the test
            self._check_after_test()

        return run

    def _check_after_test(self) -> None:
        """Raise a divergence that the test has caught.

        If no code of the test follows, the session is closed, which can raise a divergence, too.
        """
        for found in getattr(self.item, "_excinfo", None) or ():  # unittest reports it later
            self.fail(found.value)
        if self.error is not None:
            return
        try:
            poison = None if self.session is None else self.session.failed_with
            if poison is not None:
                from reenact.engine.divergence.text_renderer import render_divergence

                raise DivergenceError(poison, render_divergence(poison))
            if _is_quiet(self.item):
                self.close()
        except DivergenceError as error:
            self.fail(error)
            raise

    def _check_loop(self) -> None:
        given: Any = getattr(self.item, "funcargs", {})
        backend = given.get("anyio_backend")
        name = backend[0] if isinstance(backend, tuple) else backend
        if name == "trio" or self.item.get_closest_marker("trio") is not None:
            raise UsageError(
                f"{self.item.nodeid} runs on trio, which is not covered",
                hint="run it on asyncio: a fixture anyio_backend that returns 'asyncio'; or leave "
                "the marker reenact out",
            )


ITEM_SESSION: pytest.StashKey[ItemSession] = pytest.StashKey()

HELD_PATCHES: pytest.StashKey[Callable[[], None]] = pytest.StashKey()
"""Function that removes the patches that stay installed between tests."""


def release_patches(config: pytest.Config) -> None:
    """Remove the patches that stay installed between tests."""
    release = config.stash.get(HELD_PATCHES, None)
    if release is not None:
        del config.stash[HELD_PATCHES]
        release()


_QUIET = frozenset(
    "_pytest anyio faker pytest_asyncio pytest_mock pytest_randomly pytest_recording reenact".split()
)
"""Packages whose fixtures make no calls during teardown."""


def _is_quiet(item: Any) -> bool:
    """Return True if no code of the test runs after it.

    Then unused calls can be reported as its failure.
    """
    info = getattr(item, "_fixtureinfo", None)
    if info is None:
        return True
    if "request" in info.argnames:
        return False
    definitions = (info.name2fixturedefs.get(name) for name in item.fixturenames)
    return not any(defs and _may_make_calls(defs[-1]) for defs in definitions)


def _may_make_calls(fixture: Any) -> bool:
    if fixture.scope != "function":
        return False
    if fixture.argname.startswith(("_xunit_", "_unittest_")):
        return True
    if str(fixture.func.__module__).partition(".")[0] in _QUIET:
        return False
    flags: int = getattr(getattr(fixture.func, "__code__", None), "co_flags", 0)
    return bool(flags & 0x220) or "request" in fixture.argnames


SEED: Final = "faker_seed"
"""Fixture that passes the seed of pytest-randomly to faker."""

_PLUGIN: Final = "pytest_randomly"


class _Seeded:
    """Replacement for the pytest configuration that only provides a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def getoption(self, name: str) -> int:
        return self._seed


def seed_of(item: pytest.Item) -> int:
    """Return the seed of the test, which is the same in every run."""
    return crc32(item.nodeid.encode("utf-8", "surrogatepass"))


def seed_again(item: pytest.Item) -> None:
    """Seed the random generators with the seed of the test, if pytest-randomly seeds them."""
    module: Any = sys.modules.get(_PLUGIN)
    reseed = getattr(module, "_reseed", None)
    if reseed is None or not item.config.pluginmanager.is_registered(module):
        return
    if item.config.getoption("randomly_reset_seed", False):
        reseed(_Seeded(seed_of(item)))


def seed_fixture(fixture: Any, item: pytest.Item) -> bool:
    """Replace the value of the fixture ``faker_seed`` of pytest-randomly with the test's seed.

    Returns False for any other fixture.
    """
    if fixture.argname != SEED or fixture.func.__module__ != _PLUGIN:
        return False
    _, key, _ = fixture.cached_result
    fixture.cached_result = seed_of(item), key, None
    return True
