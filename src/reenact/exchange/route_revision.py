"""Revision of a route: a digest of its id, its code, and the version of the app.

The code includes the handler and all functions of the same package that it refers to, including
steps. The digest covers the syntax without docstrings and positions, so comments and formatting do
not change it. Functions without source are covered by their bytecode. The digest does not depend on
the hash seed.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import msgspec

from reenact.exchange.steps import STEP_ID

__all__ = ["Definition", "define"]

_MOST_FUNCTIONS: Final = 1_000
_TRIES: Final = 20
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


class Definition(msgspec.Struct, frozen=True):
    """Definition of a route. ``processors`` are the sorted ids of the steps in its code."""

    revision: str
    processors: tuple[str, ...] = ()


def define(
    route_id: str, kind: str, version: str, handlers: tuple[Callable[..., Any], ...]
) -> Definition:
    """Return the definition of a route with ``handlers``."""
    functions: dict[str, FunctionType] = {}
    steps: set[str] = set()
    for handler in handlers:
        _walk(handler, functions, steps)
    parts = [route_id, kind, version]
    for name in sorted(functions):
        parts += (name, _code_of(functions[name]))
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return Definition(f"sha256:{hashlib.sha256(text).hexdigest()}", tuple(sorted(steps)))


def _walk(handler: Any, functions: dict[str, FunctionType], steps: set[str]) -> None:
    waiting = [handler]
    root = _package(_unwrapped(handler))
    while waiting and len(functions) < _MOST_FUNCTIONS:
        given = waiting.pop()
        step_id = getattr(given, STEP_ID, None)
        if isinstance(step_id, str):
            steps.add(step_id)
        function = _unwrapped(given)
        if not isinstance(function, FunctionType):
            continue
        name = f"{function.__module__}:{function.__qualname__}"
        if name not in functions:
            functions[name] = function
            waiting += (one for one in _mentioned(function) if _package(_unwrapped(one)) == root)


def _unwrapped(given: Any) -> Any:
    """Return the function behind decorators, methods and partials."""
    for _ in range(100):
        inner = getattr(given, "__wrapped__", None) or getattr(given, "__func__", None)
        inner = inner or (getattr(given, "func", None) if not inspect.isroutine(given) else None)
        if inner is None or inner is given:
            break
        given = inner
    if not isinstance(given, (FunctionType, type)) and hasattr(type(given), "__call__"):  # noqa: B004
        given = getattr(type(given).__call__, "__func__", type(given).__call__)
    return given


def _package(function: Any) -> str:
    return str(getattr(function, "__module__", "") or "").partition(".")[0]


def _mentioned(function: FunctionType) -> Iterator[Any]:
    """Yield the values that the names in ``function`` refer to, including attributes of modules."""
    names = set(_names(function.__code__))
    for name in sorted(names):
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            yield from (getattr(value, inner, None) for inner in sorted(names))
        elif value is not None:
            yield value
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _code_of(function: FunctionType) -> str:
    try:
        tree = _parsed(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return _bytecode(function.__code__)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree, annotate_fields=False)


def _parsed(source: str) -> ast.Module:
    """Call ``ast.parse``. Before 3.11.8 and 3.12.2 it can fail if another thread parses at the same
    time (gh-106905), so it is called again."""
    for _ in range(_TRIES):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)


def _bytecode(code: CodeType) -> str:
    constants = (_bytecode(x) if isinstance(x, CodeType) else _steady(x) for x in code.co_consts)
    return "\0".join((code.co_code.hex(), *code.co_names, *code.co_varnames, *constants))


def _steady(constant: Any) -> str:
    """Return a stable text of a constant. Sets have no order."""
    return repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)
