"""All tables and their column types.

``tenant`` is the first column of every key of a tenant's table. Times are milliseconds since the epoch.
The first migration creates all tables of
:data:`METADATA`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

__all__ = [
    "AGENTS",
    "ASKED",
    "ATTEMPTS",
    "AUDIT_HEADS",
    "AUDIT_NODES",
    "AUDIT_RECORDS",
    "AUDIT_VALUES",
    "BATCHES",
    "BATCH_ITEMS",
    "CAPTURES",
    "COMMANDS",
    "COMPARED",
    "DEPLOYMENT",
    "ENVIRONMENTS",
    "ERASED",
    "EXCHANGES",
    "EXPORTS",
    "FAILED",
    "GRANTS",
    "IDEMPOTENCY",
    "IDENTITIES",
    "KEYS",
    "METADATA",
    "NOISE",
    "OPEN",
    "REPLAYED",
    "REPLAYS",
    "RETENTION",
    "SEARCHES",
    "SESSIONS",
    "SPANS",
    "TENANTS",
    "TEXTS",
    "UNSENT",
    "USERS",
    "WITH_RECORDING",
    "WITH_SOURCE",
    "Number",
    "Real",
    "Words",
]

Number: Final = BigInteger().with_variant(Integer(), "sqlite")
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


def _of_tenant(
    name: str,
    *,
    words: Sequence[str] = (),
    numbers: Sequence[str] = (),
    reals: Sequence[str] = (),
    blobs: Sequence[str] = (),
    key: Sequence[str],
    indexes: Sequence[Index] = (),
) -> Table:
    """Return a table whose rows belong to a tenant, with ``tenant`` before ``key`` as its primary key.

    The other arguments are the columns by type. No column can be null.
    """
    columns: tuple[tuple[Any, Sequence[str]], ...] = (
        (Words, ["tenant"]),
        (Number, numbers),
        (Real, reals),
        (Words, words),
        (LargeBinary, blobs),
    )
    return Table(
        name,
        METADATA,
        *(Column(one, kind, nullable=False) for kind, names in columns for one in names),
        PrimaryKeyConstraint("tenant", *key),
        ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        *indexes,
        sqlite_strict=True,
    )


def _partial(name: str, condition: str, *columns: str, unique: bool = False) -> Index:
    """Return an index of the rows that fulfil ``condition``.

    Only queries with literally the same condition use it.
    """
    limit = text(condition)
    return Index(name, *columns, unique=unique, sqlite_where=limit, postgresql_where=limit)


FAILED: Final = "status = 'failed'"
REPLAYED: Final = "replay_id <> ''"
WITH_SOURCE: Final = "source_exchange_id <> ''"
"""Few exchanges are like this, and have indexes of their own."""
TEXTS: Final = ("exchange_id", "route_id", "error_type", "error_message", "correlation_id")
"""In which a text is looked for."""
WITH_RECORDING: Final = "recording_digest <> ''"
UNSENT: Final = "sent_at = 0 AND done_at = 0"
"""Of commands."""
OPEN: Final = "state IN ('requested', 'delivered', 'running')"
COMPARED: Final = "verdict <> ''"
"""Conditions of partial indexes: replays that have not ended, and replays with a verdict."""

ASKED: Final = "state = 'asked'"
"""Few items are so at a time, and have an index of their own."""

DEPLOYMENT: Final = Table(
    "deployment",
    METADATA,
    Column("id", Number, primary_key=True),
    Column("name", Words, nullable=False),
    Column("schema_version", Number, nullable=False),
    Column("created_at", Number, nullable=False),
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
    Column("dedicated", Number, nullable=False),
    Column("created_at", Number, nullable=False),
    sqlite_strict=True,
)

ENVIRONMENTS: Final = _of_tenant(
    "environments",
    words=("name", "kind"),
    key=("name",),
)

USERS: Final = _of_tenant(
    "users",
    words=("id", "email", "password", "invite_hash"),
    numbers=("invite_expires_at", "created_at", "removed_at"),
    key=("id",),
    indexes=(
        Index("users_by_email", "email"),
        _partial("users_once", "removed_at = 0", "tenant", "email", unique=True),
    ),
)
"""``password`` is a salted hash, empty until the invitation is accepted; ``invite_hash`` is the
hash of its one-time link, or empty."""

GRANTS: Final = _of_tenant(
    "grants",
    words=("id", "holder_type", "holder_id", "what", "environment", "app", "created_by"),
    numbers=("expires_at", "created_at"),
    key=("id",),
    indexes=(Index("grants_by_holder", "tenant", "holder_type", "holder_id"),),
)

KEYS: Final = _of_tenant(
    "keys",
    words=("id", "kind", "name", "hash", "app", "environment", "owner"),
    numbers=("created_at", "expires_at", "revoked_at", "last_used_at"),
    key=("id",),
    indexes=(Index("keys_by_id", "id", unique=True),),
)
"""``hash`` is the SHA-256 of a secret of 32 random bytes; ``owner`` the user whose key it is, whose
grants it has; empty for keys with grants of their own."""

SESSIONS: Final = _of_tenant(
    "sessions",
    words=("hash", "user_id"),
    numbers=("created_at", "last_seen_at", "expires_at"),
    key=("hash",),
    indexes=(Index("sessions_by_hash", "hash", unique=True),),
)
"""``hash`` is the SHA-256 of what the cookie holds."""

AGENTS: Final = _of_tenant(
    "agents",
    words=(
        *("agent_id", "key_id", "app", "environment", "name", "version", "capabilities"),
        *("containment", "running"),
    ),
    numbers=(
        *(
            "epoch",
            "registered_at",
            "last_seen_at",
            "gone_at",
            "spooled",
            "dropped",
            "last_command",
        ),
        *("stream",),
    ),
    blobs=("routes",),
    key=("agent_id",),
    indexes=(Index("agents_by_place", "tenant", "app", "environment", "last_seen_at"),),
)
"""``routes`` and ``containment`` are JSON; ``last_command`` the number of the newest command for it; ``stream`` counts the
streams that it opened, of which only the last one counts."""

EXCHANGES: Final = _of_tenant(
    "exchanges",
    words=(
        *(
            "exchange_id",
            "app",
            "environment",
            "agent_id",
            "route_id",
            "revision",
            "kind",
            "status",
        ),
        *("not_replayable", "replay_id", "source_exchange_id", "trace_id", "span_id"),
        *("parent_span_id", "correlation_id", "error_type", "error_message", "recording_digest"),
        *("digest",),
    ),
    numbers=("started_at", "received_at", "depth", "http_status", "recording_size"),
    reals=("duration",),
    blobs=("document",),
    key=("exchange_id",),
    indexes=(
        Index("exchanges_by_time", "tenant", "started_at", "exchange_id").ddl_if("postgresql"),
        Index(
            "exchanges_with_texts",
            *("tenant", "started_at", "exchange_id"),
            *(one for one in TEXTS if one != "exchange_id"),
        ).ddl_if("sqlite"),
        *(
            Index(f"exchanges_by_{name}", "tenant", column, "started_at", "exchange_id")
            for name, column in (
                ("app", "app"),
                ("environment", "environment"),
                ("route", "route_id"),
                ("trace", "trace_id"),
                ("correlation", "correlation_id"),
            )
        ),
        _partial("exchanges_failed", FAILED, "tenant", "started_at", "exchange_id"),
        _partial("exchanges_replayed", REPLAYED, "tenant", "started_at", "exchange_id"),
        _partial("exchanges_by_source", WITH_SOURCE, "tenant", "source_exchange_id"),
        _partial("exchanges_by_recording", WITH_RECORDING, "tenant", "recording_digest"),
    ),
)
"""``document`` is the received exchange, compressed, ``digest`` the digest of its canonical JSON,
``http_status`` the status of its response, 0 without one. A row is never changed.

Lists are ordered by ``started_at`` and ``exchange_id``, so every index of a filter ends with these
columns: SQLite has no statistics and would otherwise scan all exchanges in order. On SQLite the
index of all exchanges includes the searched texts, so a search reads only matching rows. PostgreSQL
cannot index texts of this length."""

REPLAYS: Final = _of_tenant(
    "replays",
    words=(
        *("replay_id", "source_exchange_id", "exchange_id", "state", "code", "message", "agent_id"),
        *("app", "environment", "route_id", "boundaries", "environment_variables", "containment"),
        *("revision", "reason", "redacted", "requested_by", "actor", "permission", "verdict"),
        *("cause", "ending"),
    ),
    numbers=(
        *("requested_at", "delivered_at", "started_at", "ended_at", "due_at", "deadline", "strict"),
        *("depth", "http_status", "audit_seq", "result_seq"),
    ),
    blobs=("patch", "payload"),
    key=("replay_id",),
    indexes=(
        Index("replays_by_time", "tenant", "requested_at", "replay_id"),
        *(
            Index(f"replays_by_{name}", "tenant", column, "requested_at", "replay_id")
            for name, column in (
                ("source", "source_exchange_id"),
                ("app", "app"),
                ("environment", "environment"),
                ("route", "route_id"),
                ("state", "state"),
                ("person", "requested_by"),
            )
        ),
        _partial("replays_by_verdict", COMPARED, "tenant", "verdict", "requested_at", "replay_id"),
        _partial("replays_open", OPEN, "due_at", "state"),
    ),
)
"""``containment`` is the declared containment of the app agent at the time of the request, as JSON.
``due_at`` is when the current state expires. ``payload`` is the commanded payload, compressed,
and ``redacted`` the paths without a value. ``actor`` is the requesting principal as JSON, for
the dispatch. ``ending`` is the ending of its exchange (``completed``, ``refused``, ``failed``),
empty before, and ``http_status`` its status. ``audit_seq`` and ``result_seq`` are its two
records, the second is 0 before the end.

Indexes follow the exchanges. A search by verdict also excludes the empty verdict, to match the
partial index. Queries across tenants only look for unfinished replays, which are few."""

COMMANDS: Final = _of_tenant(
    "commands",
    words=("agent_id", "command_id", "replay_id", "type"),
    numbers=("number", "created_at", "expires_at", "sent_at", "done_at"),
    blobs=("document",),
    key=("agent_id", "number"),
    indexes=(
        Index("commands_by_replay", "tenant", "replay_id"),
        _partial("commands_unsent", UNSENT, "tenant", "agent_id"),
    ),
)
"""Outbox of commands. ``sent_at`` is the first dispatch. ``done_at`` is the acknowledgement or the
withdrawal; ``document`` is then empty."""

IDEMPOTENCY: Final = _of_tenant(
    "idempotency",
    words=("principal", "key", "digest", "replay_id"),
    numbers=("at",),
    key=("principal", "key"),
)

NOISE: Final = _of_tenant(
    "noise",
    words=("app", "route_id", "changed_by"),
    numbers=("changed_at",),
    blobs=("rules",),
    key=("app", "route_id"),
)

CAPTURES: Final = _of_tenant(
    "captures",
    words=("capture_id", "digest", "content_hash", "name", "created_by"),
    numbers=("size", "events", "created_at"),
    key=("capture_id",),
    indexes=(
        Index("captures_by_time", "tenant", "created_at", "capture_id"),
        Index("captures_by_digest", "tenant", "digest"),
    ),
)

BATCHES: Final = _of_tenant(
    "batches",
    words=("batch_id", "state", "actor", "actor_name", "requested_by", "requested_id", "hindered"),
    numbers=("concurrency", "per_minute", "created_at", "confirmed_at", "ended_at"),
    blobs=("wanted", "plan"),
    key=("batch_id",),
    indexes=(
        Index("batches_by_time", "tenant", "created_at", "batch_id"),
        Index("batches_by_state", "state", "batch_id"),
    ),
)
"""``wanted`` is the request and ``plan`` its plan, both as compressed JSON. ``actor`` is the user
who confirmed it, as JSON, empty before; replays are requested on their behalf. ``requested_id``
is the author of the plan. ``hindered`` is the code of the current obstacle."""

BATCH_ITEMS: Final = _of_tenant(
    "batch_items",
    words=(
        *("batch_id", "exchange_id", "app", "environment", "route_id", "state", "replay_id"),
        *("agent_id", "outcome", "code", "message", "verdict", "cause", "ending"),
    ),
    numbers=("position", "asked_at", "http_status"),
    key=("batch_id", "exchange_id"),
    indexes=(
        Index("batch_items_in_order", "tenant", "batch_id", "position", unique=True),
        Index("batch_items_by_state", "tenant", "batch_id", "state", "position"),
        Index("batch_items_by_agent", "tenant", "agent_id", "asked_at"),
        Index("batch_items_by_time", "tenant", "asked_at"),
        _partial("batch_items_asked", ASKED, "tenant", "agent_id"),
    ),
)
"""One exchange of a batch. ``state`` is ``waiting``, ``asked`` (it has a replay), ``ended`` (that has
ended, with ``outcome``, ``verdict``, ``ending`` and ``http_status``), ``refused``, ``skipped`` (never tried) or ``cancelled``."""

SEARCHES: Final = _of_tenant(
    "searches",
    words=("name", "filters", "changed_by", "changed_name"),
    numbers=("changed_at",),
    key=("name",),
)
"""``filters`` is JSON; ``changed_by`` is an id, ``changed_name`` what people call it."""

AUDIT_RECORDS: Final = _of_tenant(
    "audit_records",
    words=("action", "actor", "environment", "exchange_id", "replay_id", "outcome"),
    numbers=("seq", "at"),
    blobs=("line",),
    key=("seq",),
    indexes=(
        Index("audit_by_action", "tenant", "action", "seq"),
        Index("audit_by_actor", "tenant", "actor", "seq"),
        Index("audit_by_exchange", "tenant", "exchange_id", "seq"),
        Index("audit_by_replay", "tenant", "replay_id", "seq"),
    ),
)

AUDIT_NODES: Final = _of_tenant(
    "audit_nodes",
    numbers=("level", "position"),
    blobs=("hash",),
    key=("level", "position"),
)

AUDIT_HEADS: Final = _of_tenant(
    "audit_heads",
    words=("note",),
    numbers=("size", "last_at"),
    blobs=("frontier",),
    key=("size",),
)
"""``frontier`` and ``last_at`` are what the next record needs: the newest head is the log's end."""

AUDIT_VALUES: Final = _of_tenant(
    "audit_values",
    words=("digest",),
    numbers=("at",),
    blobs=("salt", "value"),
    key=("digest",),
)
"""Salt and value (canonical JSON) of a salted digest. They may be erased; the digest stays."""

RETENTION: Final = _of_tenant(
    "retention",
    words=("changed_by",),
    numbers=("exchanges", "recordings", "captures", "changed_at"),
    key=(),
)
"""At most one row per tenant. Values are days; 0 means unlimited."""

ERASED: Final = _of_tenant(
    "erased",
    words=("digest",),
    numbers=("at",),
    key=("digest",),
)
"""Recordings that were erased before the exchanges that name them."""

SPANS: Final = _of_tenant(
    "spans",
    words=("app", "environment", "trace_id", "span_id"),
    numbers=("received_at",),
    blobs=("document",),
    key=("app", "environment", "trace_id", "span_id"),
)
"""Spans wait here until no more of their trace come. ``document`` is JSON, redacted."""

EXPORTS: Final = _of_tenant(
    "exports",
    words=("exchange_id",),
    numbers=("queued_at", "held_until"),
    key=("exchange_id",),
    indexes=(Index("exports_by_time", "tenant", "queued_at", "exchange_id"),),
)
"""Exchanges that wait for their export. A sender holds them while it sends."""

IDENTITIES: Final = _of_tenant(
    "identities",
    words=("user_id", "issuer", "subject"),
    numbers=("linked_at",),
    key=("user_id", "issuer"),
)
"""Binding of a user to the subject of an issuer, since the first sign-in: if the address is later
reassigned, its new owner gets no access."""

ATTEMPTS: Final = Table(
    "attempts",
    METADATA,
    Column("key", Words, primary_key=True),
    Column("failures", Number, nullable=False),
    Column("until", Number, nullable=False),
    sqlite_strict=True,
)
"""Sign-ins that failed, by a hash of whom or from where."""
