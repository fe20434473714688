"""The tables of people, permissions and the deployment itself.

``tenant`` is the first column of every key of a table that belongs to a tenant. Times are
milliseconds since the epoch. The tables of exchanges are in ``exchange_tables``, those of the audit
log in ``audit_tables``; all are on one :data:`METADATA`.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

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
    "of_tenant",
]

METADATA: Final = MetaData()

Whole: Final = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits; in SQLite's strict tables there is only one name for it. Yes and no are 1 and 0."""


def of_tenant(name: str, *columns: Column, key: tuple[str, ...], extra: tuple = ()) -> Table:  # type: ignore[type-arg]
    """A table whose rows belong to a tenant, with ``tenant`` before ``key`` as its primary key."""
    return Table(
        name,
        METADATA,
        Column("tenant", Text, nullable=False),
        *columns,
        PrimaryKeyConstraint("tenant", *key),
        ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        *extra,
        sqlite_strict=True,
    )


DEPLOYMENT: Final = Table(
    "deployment",
    METADATA,
    Column("id", Whole, primary_key=True),
    Column("name", Text, nullable=False),
    Column("schema_version", Whole, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("setup_hash", Text, nullable=False),
    sqlite_strict=True,
)
"""One row. ``setup_hash`` is that of the one-time link, empty when it has been used."""

TENANTS: Final = Table(
    "tenants",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("tier", Text, nullable=False),
    Column("dedicated", Whole, nullable=False),
    Column("created_at", Whole, nullable=False),
    sqlite_strict=True,
)

ENVIRONMENTS: Final = of_tenant(
    "environments",
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    key=("name",),
)

USERS: Final = of_tenant(
    "users",
    Column("id", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("password", Text, nullable=False),
    Column("invite_hash", Text, nullable=False),
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
    Column("id", Text, nullable=False),
    Column("holder_type", Text, nullable=False),
    Column("holder_id", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("app", Text, nullable=False),
    Column("expires_at", Whole, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("created_by", Text, nullable=False),
    key=("id",),
    extra=(Index("grants_by_holder", "tenant", "holder_type", "holder_id"),),
)

KEYS: Final = of_tenant(
    "keys",
    Column("id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Column("app", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("owner", Text, nullable=False),
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
    Column("hash", Text, nullable=False),
    Column("user_id", Text, nullable=False),
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
    Column("key", Text, primary_key=True),
    Column("failures", Whole, nullable=False),
    Column("until", Whole, nullable=False),
    sqlite_strict=True,
)
"""Sign-ins that failed, by a hash of whom or from where."""
