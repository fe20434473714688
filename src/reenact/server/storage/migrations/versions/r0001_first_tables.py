"""The tables of people, agents, exchanges, replays, captures and the audit log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from reenact.server.storage.column_types import Real, Whole, Words

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "attempts",
        sa.Column("key", Words(), nullable=False),
        sa.Column("failures", Whole, nullable=False),
        sa.Column("until", Whole, nullable=False),
        sa.PrimaryKeyConstraint("key"),
        sqlite_strict=True,
    )
    op.create_table(
        "deployment",
        sa.Column("id", Whole, nullable=False),
        sa.Column("name", Words(), nullable=False),
        sa.Column("schema_version", Whole, nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.Column("setup_hash", Words(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_strict=True,
    )
    op.create_table(
        "tenants",
        sa.Column("id", Words(), nullable=False),
        sa.Column("name", Words(), nullable=False),
        sa.Column("tier", Words(), nullable=False),
        sa.Column("dedicated", Whole, nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_strict=True,
    )
    op.create_table(
        "agents",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("agent_id", Words(), nullable=False),
        sa.Column("key_id", Words(), nullable=False),
        sa.Column("app", Words(), nullable=False),
        sa.Column("environment", Words(), nullable=False),
        sa.Column("name", Words(), nullable=False),
        sa.Column("version", Words(), nullable=False),
        sa.Column("routes", sa.LargeBinary(), nullable=False),
        sa.Column("capabilities", Words(), nullable=False),
        sa.Column("epoch", Whole, nullable=False),
        sa.Column("registered_at", Whole, nullable=False),
        sa.Column("last_seen_at", Whole, nullable=False),
        sa.Column("gone_at", Whole, nullable=False),
        sa.Column("spooled", Whole, nullable=False),
        sa.Column("dropped", Whole, nullable=False),
        sa.Column("running", Words(), nullable=False),
        sa.Column("last_command", Whole, nullable=False),
        sa.Column("stream", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "agent_id"),
        sqlite_strict=True,
    )
    op.create_index(
        "agents_by_place", "agents", ["tenant", "app", "environment", "last_seen_at"], unique=False
    )
    op.create_table(
        "audit_heads",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("size", Whole, nullable=False),
        sa.Column("last_at", Whole, nullable=False),
        sa.Column("frontier", sa.LargeBinary(), nullable=False),
        sa.Column("note", Words(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "size"),
        sqlite_strict=True,
    )
    op.create_table(
        "audit_nodes",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("level", Whole, nullable=False),
        sa.Column("position", Whole, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "level", "position"),
        sqlite_strict=True,
    )
    op.create_table(
        "audit_records",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("seq", Whole, nullable=False),
        sa.Column("at", Whole, nullable=False),
        sa.Column("action", Words(), nullable=False),
        sa.Column("actor", Words(), nullable=False),
        sa.Column("environment", Words(), nullable=False),
        sa.Column("exchange_id", Words(), nullable=False),
        sa.Column("replay_id", Words(), nullable=False),
        sa.Column("outcome", Words(), nullable=False),
        sa.Column("line", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "seq"),
        sqlite_strict=True,
    )
    op.create_index("audit_by_action", "audit_records", ["tenant", "action", "seq"], unique=False)
    op.create_index("audit_by_actor", "audit_records", ["tenant", "actor", "seq"], unique=False)
    op.create_index(
        "audit_by_exchange", "audit_records", ["tenant", "exchange_id", "seq"], unique=False
    )
    op.create_index(
        "audit_by_replay", "audit_records", ["tenant", "replay_id", "seq"], unique=False
    )
    op.create_table(
        "audit_values",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("digest", Words(), nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("at", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "digest"),
        sqlite_strict=True,
    )
    op.create_table(
        "captures",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("capture_id", Words(), nullable=False),
        sa.Column("digest", Words(), nullable=False),
        sa.Column("size", Whole, nullable=False),
        sa.Column("events", Whole, nullable=False),
        sa.Column("content_hash", Words(), nullable=False),
        sa.Column("name", Words(), nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.Column("created_by", Words(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "capture_id"),
        sqlite_strict=True,
    )
    op.create_index(
        "captures_by_time", "captures", ["tenant", "created_at", "capture_id"], unique=False
    )
    op.create_table(
        "commands",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("agent_id", Words(), nullable=False),
        sa.Column("number", Whole, nullable=False),
        sa.Column("command_id", Words(), nullable=False),
        sa.Column("replay_id", Words(), nullable=False),
        sa.Column("type", Words(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.Column("expires_at", Whole, nullable=False),
        sa.Column("sent_at", Whole, nullable=False),
        sa.Column("done_at", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "agent_id", "number"),
        sqlite_strict=True,
    )
    op.create_index("commands_by_replay", "commands", ["tenant", "replay_id"], unique=False)
    op.create_table(
        "environments",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("name", Words(), nullable=False),
        sa.Column("kind", Words(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "name"),
        sqlite_strict=True,
    )
    op.create_table(
        "exchanges",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("exchange_id", Words(), nullable=False),
        sa.Column("app", Words(), nullable=False),
        sa.Column("environment", Words(), nullable=False),
        sa.Column("agent_id", Words(), nullable=False),
        sa.Column("route_id", Words(), nullable=False),
        sa.Column("revision", Words(), nullable=False),
        sa.Column("kind", Words(), nullable=False),
        sa.Column("status", Words(), nullable=False),
        sa.Column("started_at", Whole, nullable=False),
        sa.Column("duration", Real, nullable=False),
        sa.Column("received_at", Whole, nullable=False),
        sa.Column("not_replayable", Words(), nullable=False),
        sa.Column("replay_id", Words(), nullable=False),
        sa.Column("source_exchange_id", Words(), nullable=False),
        sa.Column("depth", Whole, nullable=False),
        sa.Column("trace_id", Words(), nullable=False),
        sa.Column("span_id", Words(), nullable=False),
        sa.Column("parent_span_id", Words(), nullable=False),
        sa.Column("correlation_id", Words(), nullable=False),
        sa.Column("error_type", Words(), nullable=False),
        sa.Column("error_message", Words(), nullable=False),
        sa.Column("recording_digest", Words(), nullable=False),
        sa.Column("recording_size", Whole, nullable=False),
        sa.Column("digest", Words(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "exchange_id"),
        sqlite_strict=True,
    )
    op.create_index(
        "exchanges_by_correlation", "exchanges", ["tenant", "correlation_id"], unique=False
    )
    op.create_index(
        "exchanges_by_place",
        "exchanges",
        ["tenant", "app", "environment", "started_at"],
        unique=False,
    )
    op.create_index(
        "exchanges_by_route", "exchanges", ["tenant", "route_id", "started_at"], unique=False
    )
    op.create_index(
        "exchanges_by_source", "exchanges", ["tenant", "source_exchange_id"], unique=False
    )
    op.create_index(
        "exchanges_by_time", "exchanges", ["tenant", "started_at", "exchange_id"], unique=False
    )
    op.create_index("exchanges_by_trace", "exchanges", ["tenant", "trace_id"], unique=False)
    op.create_table(
        "grants",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("id", Words(), nullable=False),
        sa.Column("holder_type", Words(), nullable=False),
        sa.Column("holder_id", Words(), nullable=False),
        sa.Column("what", Words(), nullable=False),
        sa.Column("environment", Words(), nullable=False),
        sa.Column("app", Words(), nullable=False),
        sa.Column("expires_at", Whole, nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.Column("created_by", Words(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "id"),
        sqlite_strict=True,
    )
    op.create_index(
        "grants_by_holder", "grants", ["tenant", "holder_type", "holder_id"], unique=False
    )
    op.create_table(
        "idempotency",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("principal", Words(), nullable=False),
        sa.Column("key", Words(), nullable=False),
        sa.Column("digest", Words(), nullable=False),
        sa.Column("replay_id", Words(), nullable=False),
        sa.Column("at", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "principal", "key"),
        sqlite_strict=True,
    )
    op.create_table(
        "keys",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("id", Words(), nullable=False),
        sa.Column("kind", Words(), nullable=False),
        sa.Column("name", Words(), nullable=False),
        sa.Column("hash", Words(), nullable=False),
        sa.Column("app", Words(), nullable=False),
        sa.Column("environment", Words(), nullable=False),
        sa.Column("owner", Words(), nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.Column("expires_at", Whole, nullable=False),
        sa.Column("revoked_at", Whole, nullable=False),
        sa.Column("last_used_at", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "id"),
        sqlite_strict=True,
    )
    op.create_index("keys_by_id", "keys", ["id"], unique=True)
    op.create_table(
        "noise",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("app", Words(), nullable=False),
        sa.Column("route_id", Words(), nullable=False),
        sa.Column("rules", sa.LargeBinary(), nullable=False),
        sa.Column("changed_at", Whole, nullable=False),
        sa.Column("changed_by", Words(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "app", "route_id"),
        sqlite_strict=True,
    )
    op.create_table(
        "replays",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("replay_id", Words(), nullable=False),
        sa.Column("source_exchange_id", Words(), nullable=False),
        sa.Column("exchange_id", Words(), nullable=False),
        sa.Column("state", Words(), nullable=False),
        sa.Column("code", Words(), nullable=False),
        sa.Column("message", Words(), nullable=False),
        sa.Column("requested_at", Whole, nullable=False),
        sa.Column("delivered_at", Whole, nullable=False),
        sa.Column("started_at", Whole, nullable=False),
        sa.Column("ended_at", Whole, nullable=False),
        sa.Column("due_at", Whole, nullable=False),
        sa.Column("deadline", Whole, nullable=False),
        sa.Column("agent_id", Words(), nullable=False),
        sa.Column("app", Words(), nullable=False),
        sa.Column("environment", Words(), nullable=False),
        sa.Column("route_id", Words(), nullable=False),
        sa.Column("boundaries", Words(), nullable=False),
        sa.Column("strict", Whole, nullable=False),
        sa.Column("revision", Words(), nullable=False),
        sa.Column("reason", Words(), nullable=False),
        sa.Column("patch", sa.LargeBinary(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("redacted", Words(), nullable=False),
        sa.Column("requested_by", Words(), nullable=False),
        sa.Column("actor", Words(), nullable=False),
        sa.Column("permission", Words(), nullable=False),
        sa.Column("depth", Whole, nullable=False),
        sa.Column("verdict", Words(), nullable=False),
        sa.Column("audit_seq", Whole, nullable=False),
        sa.Column("result_seq", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "replay_id"),
        sqlite_strict=True,
    )
    op.create_index("replays_by_source", "replays", ["tenant", "source_exchange_id"], unique=False)
    op.create_index("replays_by_state", "replays", ["state", "due_at"], unique=False)
    op.create_index(
        "replays_by_time", "replays", ["tenant", "requested_at", "replay_id"], unique=False
    )
    op.create_table(
        "sessions",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("hash", Words(), nullable=False),
        sa.Column("user_id", Words(), nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.Column("last_seen_at", Whole, nullable=False),
        sa.Column("expires_at", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "hash"),
        sqlite_strict=True,
    )
    op.create_index("sessions_by_hash", "sessions", ["hash"], unique=True)
    op.create_table(
        "users",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("id", Words(), nullable=False),
        sa.Column("email", Words(), nullable=False),
        sa.Column("password", Words(), nullable=False),
        sa.Column("invite_hash", Words(), nullable=False),
        sa.Column("invite_expires_at", Whole, nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.Column("removed_at", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "id"),
        sqlite_strict=True,
    )
    op.create_index("users_by_email", "users", ["email"], unique=False)
    op.create_index(
        "users_once",
        "users",
        ["tenant", "email"],
        unique=True,
        sqlite_where=sa.text("removed_at = 0"),
        postgresql_where=sa.text("removed_at = 0"),
    )
