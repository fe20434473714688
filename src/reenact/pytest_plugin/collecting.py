"""Tests that are data: the entries of a ``tests.json`` are collected like any other test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy
import pytest

from reenact import errors

if TYPE_CHECKING:
    from reenact.policy.cases import Case
    from reenact.pytest_plugin.wanted import Wanted

__all__ = [
    "CaseItem",
    "CasesFile",
    "CasesInvalid",
    "pytest_collect_file",
]

_NOT_OF_THE_PROJECT = (
    *(str(Path(one).resolve().parent) + os.sep for one in (errors.__file__, pluggy.__file__)),
    str(Path(pytest.__file__).resolve().parent.parent / "_pytest") + os.sep,
    "<frozen",
)


class CasesInvalid(Exception):
    """A ``tests.json`` that cannot be used: everything that is wrong with it, line by line."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CasesFile | None:
    """A ``tests.json`` that says it is ours. One of another tool is left alone, unless pytest was
    asked for it by name."""
    if file_path.name != "tests.json":
        return None
    from reenact.policy.cases import is_ours  # few projects have one, and all would pay for it

    is_listed = is_ours(file_path, parent.config.rootpath)
    if not is_listed and not parent.session.isinitpath(file_path):
        return None
    return CasesFile.from_parent(parent, path=file_path)


class CasesFile(pytest.File):
    """One ``tests.json``."""

    def collect(self) -> Iterator[CaseItem]:
        """Its tests, in their order. Raises :class:`CasesInvalid`."""
        from reenact.policy.cases import read_cases
        from reenact.pytest_plugin.case_loading import prepare_modules

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
        """Those that have a meaning, and those that the index of the project names."""
        from reenact.errors import UsageError
        from reenact.policy.index import load_index, named_worlds
        from reenact.policy.paths import WORLDS, find_root

        try:
            named = named_worlds(load_index(find_root(self.config.rootpath, os.environ)))
        except UsageError:
            named = ()  # a test that needs the index will say what is wrong with it
        return [*WORLDS, *named]

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What is wrong with the file, and no traceback of ours."""
        if isinstance(excinfo.value, CasesInvalid):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


class CaseItem(pytest.Item):
    """One test of a ``tests.json``.

    ``reenact_wanted`` is what it is run with: None for an entry that opens its cassettes itself.
    ``reenact_surroundings`` are variables of the environment that hold while it runs.
    """

    def __init__(self, *, case: Case, line: int, **rest: Any) -> None:
        super().__init__(**rest)
        self.case = case
        self.reenact_wanted = _wanted(case, self._fixture_root(case))
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
        """The root is that of the tests, in whatever folder pytest was started."""
        from reenact.policy.paths import FIXTURES, find_root

        said = {
            "REENACT_ROOT": str(find_root(self.config.rootpath, os.environ)),
            "REENACT_WORLD": case.world,
            FIXTURES: self._fixture_root(case),
        }
        return {name: value for name, value in said.items() if value is not None}

    @property
    def _place(self) -> str:
        return f"{self.path.name}:{self._line}"

    def setup(self) -> None:
        """Import the entry, before any session is open. What is wrong with it is said when it is to
        be run: of what fails before, pytest shows all that it did itself."""
        from reenact.pytest_plugin.case_loading import load_entry

        try:
            self._function = load_entry(self.case.entry, self._place, self.path.parent)
        except Exception as error:  # noqa: BLE001 - a module may raise anything, and it is raised below
            self._problem = error

    def runtest(self) -> None:
        """Call the entry, and compare what it does with what is expected."""
        from reenact.pytest_plugin.case_judging import run_as_expected

        if self._problem is not None:
            raise self._problem
        run_as_expected(self._function, self.case, self._place)

    def teardown(self) -> None:
        """Let go of what the entry holds."""
        self._function = self._problem = None

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The traceback without us and those who called us; of an error of ours that is not about
        what the entry did, what is wrong and what to do."""
        from reenact.errors import ReenactError

        code = getattr(self._function, "__code__", None)
        inside = None if code is None else excinfo.traceback.cut(path=code.co_filename)
        entered = inside is not None and len(inside) < len(excinfo.traceback)
        if isinstance(excinfo.value, ReenactError) and not entered:
            return f"{excinfo.value.message}\nhint: {excinfo.value.hint}"
        kept = (inside or excinfo.traceback).filter(_is_of_the_project)
        if len(kept):
            excinfo.traceback = kept
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it stands in its file."""
        return self.path, self._line - 1, self.case.id


def _is_of_the_project(entry: Any) -> bool:
    """Is a line of a traceback neither ours, nor pytest's, nor of an import?"""
    path = str(entry.path)
    return not path.startswith(_NOT_OF_THE_PROJECT) and not path.endswith("importlib/__init__.py")


def _wanted(case: Case, fixture_root: str | None) -> Wanted | None:
    if case.cassette is None:
        return None
    from reenact.pytest_plugin.wanted import Wanted

    return Wanted(
        cassette=case.cassette, policy=case.policy, mode=case.mode, fixture_root=fixture_root
    )
