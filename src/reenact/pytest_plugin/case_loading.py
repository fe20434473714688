"""Finding the function that an entry of ``tests.json`` names."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from reenact.errors import UsageError
from reenact.policy.nearest import did_you_mean

__all__ = ["load_entry", "prepare_modules"]


def prepare_modules(entries: Iterable[str], *folders: Path) -> None:
    """Let the modules of ``entries`` be found in ``folders``, after all other places, and let pytest
    rewrite their assertions as it does in test modules."""
    for folder in map(str, folders):
        if folder not in sys.path:
            sys.path.append(folder)
    for module in dict.fromkeys(entry.partition(":")[0] for entry in entries):
        if module not in sys.modules:  # too late otherwise, and pytest would warn
            pytest.register_assert_rewrite(module)


def load_entry(entry: str, place: str, folder: Path) -> Any:
    """What ``module:function`` names. Raises :class:`UsageError` that begins with ``place``, also for
    a module of that name in ``folder`` when Python has another one."""
    name, _, path = entry.partition(":")
    found: Any = _imported(name, entry, place)
    _check_home(found, name, place, folder)
    for step in path.split("."):
        if not hasattr(found, step):
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
            raise  # it is there, and imports something that is not
        raise UsageError(
            f"{place}: the entry {entry} is not there: there is no module {error.name}",
            hint="modules are found where Python finds them, beside the tests.json and in the "
            "rootdir of pytest",
        ) from None


def _check_home(module: Any, name: str, place: str, folder: Path) -> None:
    """Two folders with a ``tests.json`` may each have a module ``app``, and Python imports one."""
    stem = folder.joinpath(*name.split("."))
    beside = next(filter(Path.is_file, (stem.with_suffix(".py"), stem / "__init__.py")), None)
    file = getattr(module, "__file__", None)
    if beside is not None and (file is None or Path(file).resolve() != beside.resolve()):
        raise UsageError(
            f"{place}: {name} is {file or 'built in'}, and there is {beside}, too",
            hint="give one of them another name, or make them modules of packages",
        )
