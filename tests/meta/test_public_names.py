"""The public surface is a list: complete, unique, in order, documented."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from types import ModuleType

import pytest

import reenact
from tests.meta.tree import modules


def _order(name: str) -> tuple[int, str]:
    """CONSTANTS, then Classes, then functions: the order ruff keeps in literal lists."""
    kind = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return kind, name


def _own_docstring(thing: object) -> str:
    text = vars(thing).get("__doc__") if isinstance(thing, type) else inspect.getdoc(thing)
    text = (text or "").strip()
    name = getattr(thing, "__name__", "")
    return "" if text.startswith(f"{name}(") else text  # what @dataclass writes by itself


def _in_module_docstring(name: str, module: ModuleType) -> bool:
    """Whether the module's own docstring has a line for this name, as the tree of errors does."""
    return re.search(rf"\b{name}\b  +\S", module.__doc__ or "") is not None


def _undocumented(module: ModuleType) -> list[str]:
    things = {name: getattr(module, name) for name in module.__all__}
    return [
        name
        for name, thing in things.items()
        if (inspect.isclass(thing) or inspect.isroutine(thing))
        and thing.__module__ == module.__name__
        and not _own_docstring(thing)
        and not _in_module_docstring(name, module)
    ]


def _wrong_list(module: ModuleType) -> list[str]:
    """Return what is wrong with ``__all__`` of ``module``."""
    public = list(getattr(module, "__all__", []))
    wrong = [f"{name} is missing" for name in public if not hasattr(module, name)]
    if wrong:
        return wrong
    if len(set(public)) != len(public):
        wrong.append("has a name twice")
    if public != sorted(public, key=_order):
        wrong.append("is not sorted")
    return wrong + [f"{name} has no docstring" for name in _undocumented(module) if public]


def test_every_module_has_a_docstring_and_a_correct_list_of_public_names() -> None:
    wrong: dict[str, list[str]] = {}
    for name in modules():
        module = importlib.import_module(name)
        found = _wrong_list(module) if hasattr(module, "__all__") else []
        if not (module.__doc__ or "").strip():
            found.append("the module has no docstring")
        if found:
            wrong[name] = found
    assert wrong == {}


def test_every_name_of_the_package_resolves_and_is_documented() -> None:
    wrong = []
    for name in reenact.__all__:
        thing = getattr(reenact, name)
        assert name in dir(reenact)
        if (inspect.isclass(thing) or inspect.isroutine(thing)) and not (
            _own_docstring(thing) or _in_module_docstring(name, sys.modules[thing.__module__])
        ):
            wrong.append(name)
    assert wrong == []


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(reenact, "no_such_name")  # noqa: B009
