"""Tests from the entries of a ``tests.json``."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy
import pytest

from reenact import errors
from reenact.errors import ReenactError, UsageError

if TYPE_CHECKING:
    from reenact.policy.json_tests import Case
    from reenact.pytest_plugin.cassette_marker import CassetteRequest

__all__ = [
    "CaseItem",
    "CasesFile",
    "CasesInvalid",
    "load_entry",
    "prepare_modules",
    "pytest_collect_file",
    "run_as_expected",
]

_NOT_OF_THE_PROJECT = (
    *(str(Path(one).resolve().parent) + os.sep for one in (errors.__file__, pluggy.__file__)),
    str(Path(pytest.__file__).resolve().parent.parent / "_pytest") + os.sep,
    "<frozen",
)


class CasesInvalid(Exception):
    """Error that lists all mistakes of a ``tests.json``."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CasesFile | None:
    """Collect a ``tests.json`` of Reenact.

    Files of other tools are ignored, unless they are named on the command line.
    """
    if file_path.name != "tests.json":
        return None
    from reenact.policy.json_tests import is_ours  # deferred, because few projects have such a file

    is_listed = is_ours(file_path, parent.config.rootpath)
    if not is_listed and not parent.session.isinitpath(file_path):
        return None
    return CasesFile.from_parent(parent, path=file_path)


class CasesFile(pytest.File):
    """A ``tests.json`` file."""

    def collect(self) -> Iterator[CaseItem]:
        """Yield the tests in the order of the file. Raises :class:`CasesInvalid`."""
        from reenact.policy.json_tests import read_cases

        found, mistakes = read_cases(self.path, self._shown(), self._worlds())
        if mistakes:
            raise CasesInvalid(
                "\n".join(f"{one.place}: {one.message}\n  hint: {one.hint}" for one in mistakes)
            )
        prepare_modules([case.entry for case, _ in found], self.path.parent, self.config.rootpath)
        for case, line in found:
            yield CaseItem.from_parent(self, name=case.id, case=case, line=line)

    def _shown(self) -> str:
        try:
            return self.path.relative_to(self.config.rootpath).as_posix()
        except ValueError:
            return str(self.path)

    def _worlds(self) -> list[str]:
        """Return the predefined worlds and the worlds of the project index."""
        from reenact.errors import UsageError
        from reenact.policy.index import load_index, named_worlds
        from reenact.policy.paths import WORLDS, find_root

        try:
            named = named_worlds(load_index(find_root(self.config.rootpath, os.environ)))
        except UsageError:
            named = ()  # a test that needs the index reports the error
        return [*WORLDS, *named]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the error of the file without a traceback."""
        if isinstance(excinfo.value, CasesInvalid):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


class CaseItem(pytest.Item):
    """One test of a ``tests.json``.

    ``reenact_request`` is its cassette request. It is None for an entry that opens its cassettes
    itself. ``reenact_surroundings`` are environment variables that are set while the test runs.
    """

    def __init__(self, *, case: Case, line: int, **rest: Any) -> None:
        super().__init__(**rest)
        self.case = case
        self.reenact_request = _request_of(case, self._fixture_root(case))
        self.reenact_surroundings = self._surroundings(case)
        self._line = line
        self._function: Any = None
        self._problem: Exception | None = None
        self.extra_keyword_matches |= {case.entry, *([case.world] if case.world else [])}
        if case.expect == "skip":
            self.add_marker(pytest.mark.skip(reason=f"{self._place}: expect is skip"))

    def _fixture_root(self, case: Case) -> str | None:
        return None if case.fixture_root is None else str(self.path.parent / case.fixture_root)

    def _surroundings(self, case: Case) -> dict[str, str]:
        """Return variables with the project root, the world and the fixture root.

        The paths are independent of the working directory.
        """
        from reenact.policy.paths import FIXTURES, find_root

        variables = {
            "REENACT_ROOT": str(find_root(self.config.rootpath, os.environ)),
            "REENACT_WORLD": case.world,
            FIXTURES: self._fixture_root(case),
        }
        return {name: value for name, value in variables.items() if value is not None}

    @property
    def _place(self) -> str:
        return f"{self.path.name}:{self._line}"

    def setup(self) -> None:
        """Import the entry before the session opens.

        Errors are raised when the test runs, because pytest shows its own frames for
        earlier errors.
        """

        try:
            self._function = load_entry(self.case.entry, self._place, self.path.parent)
        except Exception as error:  # noqa: BLE001 - a module may raise anything, and it is raised below
            self._problem = error

    def runtest(self) -> None:
        """Call the entry and compare its outcome with the expected one."""

        if self._problem is not None:
            raise self._problem
        run_as_expected(self._function, self.case, self._place)

    def teardown(self) -> None:
        """Release the entry and its error."""
        self._function = self._problem = None

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the traceback without frames of Reenact and pytest.

        Errors of Reenact outside the entry are shown as message and hint.
        """
        from reenact.errors import ReenactError

        code = getattr(self._function, "__code__", None)
        inside = None if code is None else excinfo.traceback.cut(path=code.co_filename)
        entered = inside is not None and len(inside) < len(excinfo.traceback)
        if isinstance(excinfo.value, ReenactError) and not entered:
            return f"{excinfo.value.message}\nhint: {excinfo.value.hint}"
        frames = (inside or excinfo.traceback).filter(_is_of_the_project)
        if len(frames):
            excinfo.traceback = frames
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the position of the case in its file."""
        return self.path, self._line - 1, self.case.id


def _is_of_the_project(entry: Any) -> bool:
    """Return True for a traceback entry that is not in Reenact, pytest or the import system."""
    path = str(entry.path)
    return not path.startswith(_NOT_OF_THE_PROJECT) and not path.endswith("importlib/__init__.py")


def _request_of(case: Case, fixture_root: str | None) -> CassetteRequest | None:
    if case.cassette is None:
        return None
    from reenact.pytest_plugin.cassette_marker import CassetteRequest

    return CassetteRequest(
        cassette=case.cassette, policy=case.policy, mode=case.mode, fixture_root=fixture_root
    )


def prepare_modules(entries: Iterable[str], *folders: Path) -> None:
    """Append ``folders`` to ``sys.path``, and let pytest rewrite the assertions of the modules."""
    for folder in map(str, folders):
        if folder not in sys.path:
            sys.path.append(folder)
    for module in dict.fromkeys(entry.partition(":")[0] for entry in entries):
        if module not in sys.modules:  # pytest warns about a module that is already imported
            pytest.register_assert_rewrite(module)


def load_entry(entry: str, place: str, folder: Path) -> Any:
    """Return the object named ``module:function``.

    Raises :class:`UsageError` with the prefix ``place``, also if Python would import a
    different module from the one in ``folder``.
    """
    name, _, path = entry.partition(":")
    found: Any = _imported(name, entry, place)
    _check_folder(found, name, place, folder)
    for step in path.split("."):
        if not hasattr(found, step):
            from reenact.errors import did_you_mean

            names = [one for one in dir(found) if not one.startswith("_")]
            where = getattr(found, "__file__", None) or getattr(found, "__qualname__", name)
            raise UsageError(
                f"{place}: the entry {entry} is not there: {where} has no {step}",
                hint=did_you_mean(step, names),
            )
        found = getattr(found, step)
    if not callable(found):
        raise UsageError(
            f"{place}: the entry {entry} is {type(found).__name__}, and cannot be called",
            hint="name a function that takes no arguments, such as app:smoke",
        )
    return found


def _imported(name: str, entry: str, place: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists, and imports a missing one
        raise UsageError(
            f"{place}: the entry {entry} cannot be imported: module {error.name} does not exist",
            hint="modules are searched on sys.path, next to the tests.json and in the rootdir of "
            "pytest",
        ) from None


def _check_folder(module: Any, name: str, place: str, folder: Path) -> None:
    """Raise :class:`UsageError` if the imported module is not the one in ``folder``.

    Two folders with a ``tests.json`` may each have a module ``app``, and Python imports only one.
    """
    stem = folder.joinpath(*name.split("."))
    beside = next(filter(Path.is_file, (stem.with_suffix(".py"), stem / "__init__.py")), None)
    file = getattr(module, "__file__", None)
    if beside is not None and (file is None or Path(file).resolve() != beside.resolve()):
        raise UsageError(
            f"{place}: {name} is {file or 'built in'}, and there is {beside}, too",
            hint="give one of them another name, or make them modules of packages",
        )


_FAILURES = (Exception, SystemExit, pytest.fail.Exception)


def run_as_expected(function: Any, case: Case, place: str) -> None:
    """Call ``function`` and await its result if it is asynchronous.

    A case that is expected to fail must raise. Other exceptions propagate. Errors of Reenact and
    divergences are not expected failures unless ``raises`` names them. Otherwise a test that cannot
    run would pass.
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
    """Return the name and the qualified name of an exception class."""
    return kind.__name__, f"{kind.__module__}.{kind.__qualname__}"
