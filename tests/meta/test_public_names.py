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


@pytest.mark.parametrize("name", modules())
def test_module_says_what_it_is_for(name: str) -> None:
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize("name", modules())
def test_list_of_public_names_is_true(name: str) -> None:
    module = importlib.import_module(name)
    public = list(getattr(module, "__all__", []))
    assert [n for n in public if not hasattr(module, n)] == []
    assert len(set(public)) == len(public)
    assert public == sorted(public, key=_order)
    if public:
        assert _undocumented(module) == []


@pytest.mark.parametrize("name", reenact.__all__)
def test_package_name_resolves_and_is_documented(name: str) -> None:
    thing = getattr(reenact, name)
    assert name in dir(reenact)
    if inspect.isclass(thing) or inspect.isroutine(thing):
        assert _own_docstring(thing) or _in_module_docstring(name, sys.modules[thing.__module__])


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(reenact, "no_such_name")  # noqa: B009
