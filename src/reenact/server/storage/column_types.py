"""The types of columns, the same on both databases as far as one can see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import REAL, BigInteger, Dialect, Double, Integer, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

__all__ = ["Real", "Whole", "Words"]

Whole: Final = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits; in SQLite's strict tables there is only one name for it. Yes and no are 1 and 0."""

Real: Final[TypeEngine[float]] = Double().with_variant(REAL(), "sqlite")
"""64 bits."""


class Words(TypeDecorator[str]):
    """Text, compared byte by byte whatever the language of the database is: ids sort by time, and
    pages go on where the last one ended. PostgreSQL has no place for the character 0: there it is
    kept as U+FFFD."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        text = Text(collation="C") if dialect.name == "postgresql" else Text()
        return dialect.type_descriptor(text)

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any] | None:
        return _without_zero if dialect.name == "postgresql" else None


def _without_zero(value: str | None) -> str | None:
    return value if value is None else value.replace("\0", "\ufffd")
