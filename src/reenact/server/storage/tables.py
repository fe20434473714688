"""The tables of people, permissions and the deployment itself.

``tenant`` is the first column of every key of a table that belongs to a tenant. Times are
milliseconds since the epoch. The tables of exchanges are in ``exchange_tables``, those of the audit
log in ``audit_tables``; all are on one :data:`METADATA`.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    Column,
    ForeignKeyConstraint,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    text,
)

from reenact.server.storage.column_types import Whole, Words

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
    "Whole",
    "Words",
    "of_tenant",
    "only",
]

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
    """An index of those rows of a tenant's table for which ``where`` holds; a query uses it that says
    the same, word for word."""
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
"""One row. ``setup_hash`` is that of the one-time link, empty when it has been used. The keys are those
that verify what the deployment signs; empty until a server has started."""

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
"""``password`` is a salted hash, empty until the invitation was followed; ``invite_hash`` that of its
one-time link, empty when there is none."""

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
