"""Import cycles: none, even when type-only and deferred imports count.

The architecture contracts of import-linter see runtime imports at module level. A cycle through
``if TYPE_CHECKING`` or through an import inside a function is just as hard to read, so it counts
here. The remedy is a small Protocol next to the code that needs it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.meta.tree import SOURCE, modules

FREE_OF_CYCLES = ("agents", "diff", "engine", "format", "hermetic", "lenses", "store", "testing")


def _imports(module: str, known: set[str]) -> Iterator[str]:
    path = SOURCE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else str(node.module)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_module":
            yield from (str(one.value) for one in node.args if isinstance(one, ast.Constant))


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules that are left when everything without open imports is removed."""
    left = {module: set(imported) for module, imported in graph.items()}
    while done := {module for module, imported in left.items() if not imported & left.keys()}:
        left = {module: imported for module, imported in left.items() if module not in done}
    # What remains leads into a cycle. Keep only modules that something in the rest imports.
    while outer := left.keys() - {one for imported in left.values() for one in imported}:
        left = {module: imported for module, imported in left.items() if module not in outer}
    return sorted(left)


@pytest.mark.parametrize("package", FREE_OF_CYCLES)
def test_package_has_no_import_cycle(package: str) -> None:
    root = f"reenact.{package}"
    known = {name for name in modules() if name == root or name.startswith(f"{root}.")}
    assert known
    graph = {name: set(_imports(name, known)) & known - {name} for name in known}
    assert _cycle(graph) == []


def test_cycle_through_two_modules_is_found() -> None:
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["b", "c"]
