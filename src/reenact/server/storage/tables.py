"""Tables of people, permissions and the deployment, and the column types of all tables.

``tenant`` is the first column of every key of a tenant's table. Times are milliseconds since the epoch.
All tables share one :data:`METADATA`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Dialect,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

__all__ = [
    "ATTEMPTS",
    "DEPLOYMENT",
    "ENVIRONMENTS",
    "GRANTS",
    "KEYS",
    "METADATA",
    "SESSIONS",
    "TENANTS",
    "USERS",
    "Real",
    "Whole",
    "Words",
    "of_tenant",
    "only",
]

Whole: Final = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits; in SQLite's strict tables there is only one name for it. Yes and no are 1 and 0."""

Real: Final[TypeEngine[float]] = Double().with_variant(REAL(), "sqlite")
"""64 bits."""


class Words(TypeDecorator[str]):
    """Text that is compared bytewise regardless of the database's collation: ids sort by time, and
    pages depend on that order.

    PostgreSQL cannot store the character 0, which becomes U+FFFD.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        text = Text(collation="C") if dialect.name == "postgresql" else Text()
        return dialect.type_descriptor(text)

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any] | None:
        return _without_zero if dialect.name == "postgresql" else None


def _without_zero(value: str | None) -> str | None:
    return value if value is None else value.replace("\0", "\ufffd")


METADATA: Final = MetaData()


def of_tenant(name: str, *columns: Column, key: tuple[str, ...], extra: tuple = ()) -> Table:  # type: ignore[type-arg]
    """A table whose rows belong to a tenant, with ``tenant`` before ``key`` as its primary key."""
    return Table(
        name,
        METADATA,
        Column("tenant", Words, nullable=False),
        *columns,
        PrimaryKeyConstraint("tenant", *key),
        ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        *extra,
        sqlite_strict=True,
    )


def only(name: str, where: str, *columns: str) -> Index:
    """Return a partial index of a tenant's table.

    Only queries with literally the same condition use it.
    """
    limit = text(where)
    return Index(name, "tenant", *columns, sqlite_where=limit, postgresql_where=limit)


DEPLOYMENT: Final = Table(
    "deployment",
    METADATA,
    Column("id", Whole, primary_key=True),
    Column("name", Words, nullable=False),
    Column("schema_version", Whole, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("setup_hash", Words, nullable=False),
    Column("audit_key", Words, nullable=False, server_default=""),
    Column("commands_key", Words, nullable=False, server_default=""),
    sqlite_strict=True,
)
"""One row. ``setup_hash`` is the hash of the one-time link, empty after its use. The public keys
are empty until the first server start."""

TENANTS: Final = Table(
    "tenants",
    METADATA,
    Column("id", Words, primary_key=True),
    Column("name", Words, nullable=False),
    Column("tier", Words, nullable=False),
    Column("dedicated", Whole, nullable=False),
    Column("created_at", Whole, nullable=False),
    sqlite_strict=True,
)

ENVIRONMENTS: Final = of_tenant(
    "environments",
    Column("name", Words, nullable=False),
    Column("kind", Words, nullable=False),
    key=("name",),
)

USERS: Final = of_tenant(
    "users",
    Column("id", Words, nullable=False),
    Column("email", Words, nullable=False),
    Column("password", Words, nullable=False),
    Column("invite_hash", Words, nullable=False),
    Column("invite_expires_at", Whole, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("removed_at", Whole, nullable=False),
    key=("id",),
    extra=(
        Index("users_by_email", "email"),
        Index(
            "users_once",
            "tenant",
            "email",
            unique=True,
            sqlite_where=text("removed_at = 0"),
            postgresql_where=text("removed_at = 0"),
        ),
    ),
)
"""``password`` is a salted hash, empty until the invitation is accepted; ``invite_hash`` is the
hash of its one-time link, or empty."""

GRANTS: Final = of_tenant(
    "grants",
    Column("id", Words, nullable=False),
    Column("holder_type", Words, nullable=False),
    Column("holder_id", Words, nullable=False),
    Column("what", Words, nullable=False),
    Column("environment", Words, nullable=False),
    Column("app", Words, nullable=False),
    Column("expires_at", Whole, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("created_by", Words, nullable=False),
    key=("id",),
    extra=(Index("grants_by_holder", "tenant", "holder_type", "holder_id"),),
)

KEYS: Final = of_tenant(
    "keys",
    Column("id", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("hash", Words, nullable=False),
    Column("app", Words, nullable=False),
    Column("environment", Words, nullable=False),
    Column("owner", Words, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("expires_at", Whole, nullable=False),
    Column("revoked_at", Whole, nullable=False),
    Column("last_used_at", Whole, nullable=False),
    key=("id",),
    extra=(Index("keys_by_id", "id", unique=True),),
)
"""``hash`` is the SHA-256 of a secret of 32 random bytes; ``owner`` the user whose key it is, whose
grants it has; empty for keys with grants of their own."""

SESSIONS: Final = of_tenant(
    "sessions",
    Column("hash", Words, nullable=False),
    Column("user_id", Words, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("last_seen_at", Whole, nullable=False),
    Column("expires_at", Whole, nullable=False),
    key=("hash",),
    extra=(Index("sessions_by_hash", "hash", unique=True),),
)
"""``hash`` is the SHA-256 of what the cookie holds."""

ATTEMPTS: Final = Table(
    "attempts",
    METADATA,
    Column("key", Words, primary_key=True),
    Column("failures", Whole, nullable=False),
    Column("until", Whole, nullable=False),
    sqlite_strict=True,
)
"""Sign-ins that failed, by a hash of whom or from where."""
