"""The tables of agents, exchanges, replays and captures."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, LargeBinary, text

from reenact.server.storage.tables import Real, Whole, Words, of_tenant, only

__all__ = [
    "AGENTS",
    "CAPTURES",
    "COMMANDS",
    "COMPARED",
    "EXCHANGES",
    "FAILED",
    "IDEMPOTENCY",
    "NOISE",
    "OPEN",
    "REPLAYED",
    "REPLAYS",
    "TEXTS",
    "UNSENT",
    "WITH_RECORDING",
    "WITH_SOURCE",
]

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

AGENTS: Final = of_tenant(
    "agents",
    Column("agent_id", Words, nullable=False),
    Column("key_id", Words, nullable=False),
    Column("app", Words, nullable=False),
    Column("environment", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("version", Words, nullable=False),
    Column("routes", LargeBinary, nullable=False),
    Column("capabilities", Words, nullable=False),
    Column("containment", Words, nullable=False),
    Column("epoch", Whole, nullable=False),
    Column("registered_at", Whole, nullable=False),
    Column("last_seen_at", Whole, nullable=False),
    Column("gone_at", Whole, nullable=False),
    Column("spooled", Whole, nullable=False),
    Column("dropped", Whole, nullable=False),
    Column("running", Words, nullable=False),
    Column("last_command", Whole, nullable=False),
    Column("stream", Whole, nullable=False),
    key=("agent_id",),
    extra=(Index("agents_by_place", "tenant", "app", "environment", "last_seen_at"),),
)
"""``routes`` and ``containment`` are JSON; ``last_command`` the number of the newest command for it; ``stream`` counts the
streams that it opened, of which only the last one counts."""

EXCHANGES: Final = of_tenant(
    "exchanges",
    Column("exchange_id", Words, nullable=False),
    Column("app", Words, nullable=False),
    Column("environment", Words, nullable=False),
    Column("agent_id", Words, nullable=False),
    Column("route_id", Words, nullable=False),
    Column("revision", Words, nullable=False),
    Column("kind", Words, nullable=False),
    Column("status", Words, nullable=False),
    Column("started_at", Whole, nullable=False),
    Column("duration", Real, nullable=False),
    Column("received_at", Whole, nullable=False),
    Column("not_replayable", Words, nullable=False),
    Column("replay_id", Words, nullable=False),
    Column("source_exchange_id", Words, nullable=False),
    Column("depth", Whole, nullable=False),
    Column("trace_id", Words, nullable=False),
    Column("span_id", Words, nullable=False),
    Column("parent_span_id", Words, nullable=False),
    Column("correlation_id", Words, nullable=False),
    Column("error_type", Words, nullable=False),
    Column("error_message", Words, nullable=False),
    Column("http_status", Whole, nullable=False),
    Column("recording_digest", Words, nullable=False),
    Column("recording_size", Whole, nullable=False),
    Column("digest", Words, nullable=False),
    Column("document", LargeBinary, nullable=False),
    key=("exchange_id",),
    extra=(
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
        only("exchanges_failed", FAILED, "started_at", "exchange_id"),
        only("exchanges_replayed", REPLAYED, "started_at", "exchange_id"),
        only("exchanges_by_source", WITH_SOURCE, "source_exchange_id"),
        only("exchanges_by_recording", WITH_RECORDING, "recording_digest"),
    ),
)
"""``document`` is the received exchange, compressed, ``digest`` the digest of its canonical JSON,
``http_status`` the status of its response, 0 without one. A row is never changed.

Lists are ordered by ``started_at`` and ``exchange_id``, so every index of a filter ends with these
columns: SQLite has no statistics and would otherwise scan all exchanges in order. On SQLite the
index of all exchanges includes the searched texts, so a search reads only matching rows. PostgreSQL
cannot index texts of this length."""

REPLAYS: Final = of_tenant(
    "replays",
    Column("replay_id", Words, nullable=False),
    Column("source_exchange_id", Words, nullable=False),
    Column("exchange_id", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("code", Words, nullable=False),
    Column("message", Words, nullable=False),
    Column("requested_at", Whole, nullable=False),
    Column("delivered_at", Whole, nullable=False),
    Column("started_at", Whole, nullable=False),
    Column("ended_at", Whole, nullable=False),
    Column("due_at", Whole, nullable=False),
    Column("deadline", Whole, nullable=False),
    Column("agent_id", Words, nullable=False),
    Column("app", Words, nullable=False),
    Column("environment", Words, nullable=False),
    Column("route_id", Words, nullable=False),
    Column("boundaries", Words, nullable=False),
    Column("strict", Whole, nullable=False),
    Column("environment_variables", Words, nullable=False),
    Column("containment", Words, nullable=False),
    Column("revision", Words, nullable=False),
    Column("reason", Words, nullable=False),
    Column("patch", LargeBinary, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("redacted", Words, nullable=False),
    Column("requested_by", Words, nullable=False),
    Column("actor", Words, nullable=False),
    Column("permission", Words, nullable=False),
    Column("depth", Whole, nullable=False),
    Column("verdict", Words, nullable=False),
    Column("cause", Words, nullable=False),
    Column("ending", Words, nullable=False),
    Column("http_status", Whole, nullable=False),
    Column("audit_seq", Whole, nullable=False),
    Column("result_seq", Whole, nullable=False),
    key=("replay_id",),
    extra=(
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
        only("replays_by_verdict", COMPARED, "verdict", "requested_at", "replay_id"),
        Index(
            "replays_open",
            *("due_at", "state"),
            sqlite_where=text(OPEN),
            postgresql_where=text(OPEN),
        ),
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

COMMANDS: Final = of_tenant(
    "commands",
    Column("agent_id", Words, nullable=False),
    Column("number", Whole, nullable=False),
    Column("command_id", Words, nullable=False),
    Column("replay_id", Words, nullable=False),
    Column("type", Words, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("expires_at", Whole, nullable=False),
    Column("sent_at", Whole, nullable=False),
    Column("done_at", Whole, nullable=False),
    key=("agent_id", "number"),
    extra=(
        Index("commands_by_replay", "tenant", "replay_id"),
        only("commands_unsent", UNSENT, "agent_id"),
    ),
)
"""Outbox of commands. ``sent_at`` is the first dispatch. ``done_at`` is the acknowledgement or the
withdrawal; ``document`` is then empty."""

IDEMPOTENCY: Final = of_tenant(
    "idempotency",
    Column("principal", Words, nullable=False),
    Column("key", Words, nullable=False),
    Column("digest", Words, nullable=False),
    Column("replay_id", Words, nullable=False),
    Column("at", Whole, nullable=False),
    key=("principal", "key"),
)

NOISE: Final = of_tenant(
    "noise",
    Column("app", Words, nullable=False),
    Column("route_id", Words, nullable=False),
    Column("rules", LargeBinary, nullable=False),
    Column("changed_at", Whole, nullable=False),
    Column("changed_by", Words, nullable=False),
    key=("app", "route_id"),
)

CAPTURES: Final = of_tenant(
    "captures",
    Column("capture_id", Words, nullable=False),
    Column("digest", Words, nullable=False),
    Column("size", Whole, nullable=False),
    Column("events", Whole, nullable=False),
    Column("content_hash", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("created_by", Words, nullable=False),
    key=("capture_id",),
    extra=(
        Index("captures_by_time", "tenant", "created_at", "capture_id"),
        Index("captures_by_digest", "tenant", "digest"),
    ),
)
