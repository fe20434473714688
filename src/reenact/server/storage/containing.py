"""Texts that have a piece in them, whatever the case of its ASCII letters.

SQLite's ``LIKE`` takes it so by itself; PostgreSQL is asked for small letters on both sides.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, Column, ColumnElement, literal, or_
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from reenact.server.storage.column_types import Words

__all__ = ["any_contains"]


class _Contains(FunctionElement[bool]):
    """A column, and a pattern in which ``/`` takes the meaning of the sign behind it."""

    type = Boolean()
    inherit_cache = True


@compiles(_Contains)
def _in_general(element: _Contains, compiler: Any, **options: Any) -> str:
    column, pattern = (compiler.process(one, **options) for one in element.clauses)
    return f"lower({column}) LIKE lower({pattern}) ESCAPE '/'"


@compiles(_Contains, "sqlite")
def _in_sqlite(element: _Contains, compiler: Any, **options: Any) -> str:
    column, pattern = (compiler.process(one, **options) for one in element.clauses)
    return f"{column} LIKE {pattern} ESCAPE '/'"


def any_contains(columns: list[Column[str]], text: str) -> ColumnElement[bool]:
    """One of ``columns`` has ``text`` in it."""
    plain = text.replace("/", "//").replace("%", "/%").replace("_", "/_")
    pattern = literal(f"%{plain}%", Words())  # as it is kept: PostgreSQL has no character 0
    return or_(*(_Contains(one, pattern) for one in columns))
