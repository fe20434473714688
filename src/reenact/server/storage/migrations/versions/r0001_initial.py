"""Make all tables and indexes of a new database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from reenact.server.storage.tables import Real, Whole, Words

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
        sa.Column("audit_key", Words(), nullable=False, server_default=""),
        sa.Column("commands_key", Words(), nullable=False, server_default=""),
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
        sa.Column("containment", Words(), nullable=False),
        sa.Column("epoch", Whole, nullable=False),
        sa.Column("registered_at", Whole, nullable=False),
        sa.Column("last_seen_at", Whole, nullable=False),
        sa.Column("gone_at", Whole, nullable=False),
        sa.Column("spooled", Whole, nullable=False),
        sa.Column("dropped", Whole, nullable=False),
        sa.Column("running", Words(), nullable=False),
        sa.Column("last_command", Whole, nullable=False),
        sa.Column("stream", Whole, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "agent_id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("agents_by_place", "agents", ["tenant", "app", "environment", "last_seen_at"])
    op.create_table(
        "audit_heads",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("size", Whole, nullable=False),
        sa.Column("last_at", Whole, nullable=False),
        sa.Column("frontier", sa.LargeBinary(), nullable=False),
        sa.Column("note", Words(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "size"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_table(
        "audit_nodes",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("level", Whole, nullable=False),
        sa.Column("position", Whole, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "level", "position"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
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
        sa.PrimaryKeyConstraint("tenant", "seq"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("audit_by_action", "audit_records", ["tenant", "action", "seq"])
    op.create_index("audit_by_actor", "audit_records", ["tenant", "actor", "seq"])
    op.create_index("audit_by_exchange", "audit_records", ["tenant", "exchange_id", "seq"])
    op.create_index("audit_by_replay", "audit_records", ["tenant", "replay_id", "seq"])
    op.create_table(
        "audit_values",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("digest", Words(), nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("at", Whole, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "digest"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_table(
        "batch_items",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("batch_id", Words(), nullable=False),
        sa.Column("exchange_id", Words(), nullable=False),
        sa.Column("position", Whole, nullable=False),
        sa.Column("app", Words(), nullable=False),
        sa.Column("environment", Words(), nullable=False),
        sa.Column("route_id", Words(), nullable=False),
        sa.Column("state", Words(), nullable=False),
        sa.Column("replay_id", Words(), nullable=False),
        sa.Column("agent_id", Words(), nullable=False),
        sa.Column("asked_at", Whole, nullable=False),
        sa.Column("outcome", Words(), nullable=False),
        sa.Column("code", Words(), nullable=False),
        sa.Column("message", Words(), nullable=False),
        sa.Column("verdict", Words(), nullable=False),
        sa.Column("cause", Words(), nullable=False),
        sa.Column("ending", Words(), nullable=False),
        sa.Column("http_status", Whole, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "batch_id", "exchange_id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index(
        "batch_items_asked",
        "batch_items",
        ["tenant", "agent_id"],
        sqlite_where=sa.text("state = 'asked'"),
        postgresql_where=sa.text("state = 'asked'"),
    )
    op.create_index("batch_items_by_agent", "batch_items", ["tenant", "agent_id", "asked_at"])
    op.create_index(
        "batch_items_by_state", "batch_items", ["tenant", "batch_id", "state", "position"]
    )
    op.create_index("batch_items_by_time", "batch_items", ["tenant", "asked_at"])
    op.create_index(
        "batch_items_in_order", "batch_items", ["tenant", "batch_id", "position"], unique=True
    )
    op.create_table(
        "batches",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("batch_id", Words(), nullable=False),
        sa.Column("state", Words(), nullable=False),
        sa.Column("wanted", sa.LargeBinary(), nullable=False),
        sa.Column("plan", sa.LargeBinary(), nullable=False),
        sa.Column("concurrency", Whole, nullable=False),
        sa.Column("per_minute", Whole, nullable=False),
        sa.Column("actor", Words(), nullable=False),
        sa.Column("actor_name", Words(), nullable=False),
        sa.Column("requested_by", Words(), nullable=False),
        sa.Column("requested_id", Words(), nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.Column("confirmed_at", Whole, nullable=False),
        sa.Column("ended_at", Whole, nullable=False),
        sa.Column("hindered", Words(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "batch_id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("batches_by_state", "batches", ["state", "batch_id"])
    op.create_index("batches_by_time", "batches", ["tenant", "created_at", "batch_id"])
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
        sa.PrimaryKeyConstraint("tenant", "capture_id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("captures_by_digest", "captures", ["tenant", "digest"])
    op.create_index("captures_by_time", "captures", ["tenant", "created_at", "capture_id"])
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
        sa.PrimaryKeyConstraint("tenant", "agent_id", "number"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("commands_by_replay", "commands", ["tenant", "replay_id"])
    op.create_index(
        "commands_unsent",
        "commands",
        ["tenant", "agent_id"],
        sqlite_where=sa.text("sent_at = 0 AND done_at = 0"),
        postgresql_where=sa.text("sent_at = 0 AND done_at = 0"),
    )
    op.create_table(
        "environments",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("name", Words(), nullable=False),
        sa.Column("kind", Words(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_table(
        "erased",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("digest", Words(), nullable=False),
        sa.Column("at", Whole, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "digest"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
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
        sa.Column("http_status", Whole, nullable=False),
        sa.Column("recording_digest", Words(), nullable=False),
        sa.Column("recording_size", Whole, nullable=False),
        sa.Column("digest", Words(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "exchange_id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("exchanges_by_app", "exchanges", ["tenant", "app", "started_at", "exchange_id"])
    op.create_index(
        "exchanges_by_correlation",
        "exchanges",
        ["tenant", "correlation_id", "started_at", "exchange_id"],
    )
    op.create_index(
        "exchanges_by_environment",
        "exchanges",
        ["tenant", "environment", "started_at", "exchange_id"],
    )
    op.create_index(
        "exchanges_by_recording",
        "exchanges",
        ["tenant", "recording_digest"],
        sqlite_where=sa.text("recording_digest <> ''"),
        postgresql_where=sa.text("recording_digest <> ''"),
    )
    op.create_index(
        "exchanges_by_route", "exchanges", ["tenant", "route_id", "started_at", "exchange_id"]
    )
    op.create_index(
        "exchanges_by_source",
        "exchanges",
        ["tenant", "source_exchange_id"],
        sqlite_where=sa.text("source_exchange_id <> ''"),
        postgresql_where=sa.text("source_exchange_id <> ''"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("exchanges_by_time", "exchanges", ["tenant", "started_at", "exchange_id"])
    op.create_index(
        "exchanges_by_trace", "exchanges", ["tenant", "trace_id", "started_at", "exchange_id"]
    )
    op.create_index(
        "exchanges_failed",
        "exchanges",
        ["tenant", "started_at", "exchange_id"],
        sqlite_where=sa.text("status = 'failed'"),
        postgresql_where=sa.text("status = 'failed'"),
    )
    op.create_index(
        "exchanges_replayed",
        "exchanges",
        ["tenant", "started_at", "exchange_id"],
        sqlite_where=sa.text("replay_id <> ''"),
        postgresql_where=sa.text("replay_id <> ''"),
    )
    if op.get_bind().dialect.name == "sqlite":
        op.create_index(
            "exchanges_with_texts",
            "exchanges",
            [
                "tenant",
                "started_at",
                "exchange_id",
                "route_id",
                "error_type",
                "error_message",
                "correlation_id",
            ],
        )
    op.create_table(
        "exports",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("exchange_id", Words(), nullable=False),
        sa.Column("queued_at", Whole, nullable=False),
        sa.Column("held_until", Whole, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "exchange_id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("exports_by_time", "exports", ["tenant", "queued_at", "exchange_id"])
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
        sa.PrimaryKeyConstraint("tenant", "id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("grants_by_holder", "grants", ["tenant", "holder_type", "holder_id"])
    op.create_table(
        "idempotency",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("principal", Words(), nullable=False),
        sa.Column("key", Words(), nullable=False),
        sa.Column("digest", Words(), nullable=False),
        sa.Column("replay_id", Words(), nullable=False),
        sa.Column("at", Whole, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "principal", "key"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_table(
        "identities",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("user_id", Words(), nullable=False),
        sa.Column("issuer", Words(), nullable=False),
        sa.Column("subject", Words(), nullable=False),
        sa.Column("linked_at", Whole, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user_id", "issuer"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
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
        sa.PrimaryKeyConstraint("tenant", "id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
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
        sa.PrimaryKeyConstraint("tenant", "app", "route_id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
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
        sa.Column("environment_variables", Words(), nullable=False),
        sa.Column("containment", Words(), nullable=False),
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
        sa.Column("cause", Words(), nullable=False),
        sa.Column("ending", Words(), nullable=False),
        sa.Column("http_status", Whole, nullable=False),
        sa.Column("audit_seq", Whole, nullable=False),
        sa.Column("result_seq", Whole, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "replay_id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("replays_by_app", "replays", ["tenant", "app", "requested_at", "replay_id"])
    op.create_index(
        "replays_by_environment", "replays", ["tenant", "environment", "requested_at", "replay_id"]
    )
    op.create_index(
        "replays_by_person", "replays", ["tenant", "requested_by", "requested_at", "replay_id"]
    )
    op.create_index(
        "replays_by_route", "replays", ["tenant", "route_id", "requested_at", "replay_id"]
    )
    op.create_index(
        "replays_by_source",
        "replays",
        ["tenant", "source_exchange_id", "requested_at", "replay_id"],
    )
    op.create_index("replays_by_state", "replays", ["tenant", "state", "requested_at", "replay_id"])
    op.create_index("replays_by_time", "replays", ["tenant", "requested_at", "replay_id"])
    op.create_index(
        "replays_by_verdict",
        "replays",
        ["tenant", "verdict", "requested_at", "replay_id"],
        sqlite_where=sa.text("verdict <> ''"),
        postgresql_where=sa.text("verdict <> ''"),
    )
    op.create_index(
        "replays_open",
        "replays",
        ["due_at", "state"],
        sqlite_where=sa.text("state IN ('requested', 'delivered', 'running')"),
        postgresql_where=sa.text("state IN ('requested', 'delivered', 'running')"),
    )
    op.create_table(
        "retention",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("exchanges", Whole, nullable=False),
        sa.Column("recordings", Whole, nullable=False),
        sa.Column("captures", Whole, nullable=False),
        sa.Column("changed_at", Whole, nullable=False),
        sa.Column("changed_by", Words(), nullable=False),
        sa.PrimaryKeyConstraint("tenant"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_table(
        "searches",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("name", Words(), nullable=False),
        sa.Column("filters", Words(), nullable=False),
        sa.Column("changed_at", Whole, nullable=False),
        sa.Column("changed_by", Words(), nullable=False),
        sa.Column("changed_name", Words(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_table(
        "sessions",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("hash", Words(), nullable=False),
        sa.Column("user_id", Words(), nullable=False),
        sa.Column("created_at", Whole, nullable=False),
        sa.Column("last_seen_at", Whole, nullable=False),
        sa.Column("expires_at", Whole, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "hash"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("sessions_by_hash", "sessions", ["hash"], unique=True)
    op.create_table(
        "spans",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("app", Words(), nullable=False),
        sa.Column("environment", Words(), nullable=False),
        sa.Column("trace_id", Words(), nullable=False),
        sa.Column("span_id", Words(), nullable=False),
        sa.Column("received_at", Whole, nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "app", "environment", "trace_id", "span_id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
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
        sa.PrimaryKeyConstraint("tenant", "id"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.id"]),
        sqlite_strict=True,
    )
    op.create_index("users_by_email", "users", ["email"])
    op.create_index(
        "users_once",
        "users",
        ["tenant", "email"],
        unique=True,
        sqlite_where=sa.text("removed_at = 0"),
        postgresql_where=sa.text("removed_at = 0"),
    )
