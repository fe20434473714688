"""The tables of batches, saved searches, retention, traces and identities at OpenID providers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from reenact.server.storage.column_types import Whole, Words

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
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
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "batch_id", "exchange_id"),
        sqlite_strict=True,
    )
    op.create_index(
        "batch_items_by_agent", "batch_items", ["tenant", "agent_id", "asked_at"], unique=False
    )
    op.create_index(
        "batch_items_by_state",
        "batch_items",
        ["tenant", "batch_id", "state", "position"],
        unique=False,
    )
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
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "batch_id"),
        sqlite_strict=True,
    )
    op.create_index("batches_by_state", "batches", ["state", "batch_id"], unique=False)
    op.create_index(
        "batches_by_time", "batches", ["tenant", "created_at", "batch_id"], unique=False
    )
    op.create_table(
        "erased",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("digest", Words(), nullable=False),
        sa.Column("at", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "digest"),
        sqlite_strict=True,
    )
    op.create_table(
        "exports",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("exchange_id", Words(), nullable=False),
        sa.Column("queued_at", Whole, nullable=False),
        sa.Column("held_until", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "exchange_id"),
        sqlite_strict=True,
    )
    op.create_index(
        "exports_by_time", "exports", ["tenant", "queued_at", "exchange_id"], unique=False
    )
    op.create_table(
        "identities",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("user_id", Words(), nullable=False),
        sa.Column("issuer", Words(), nullable=False),
        sa.Column("subject", Words(), nullable=False),
        sa.Column("linked_at", Whole, nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "user_id", "issuer"),
        sqlite_strict=True,
    )
    op.create_table(
        "retention",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("exchanges", Whole, nullable=False),
        sa.Column("recordings", Whole, nullable=False),
        sa.Column("captures", Whole, nullable=False),
        sa.Column("changed_at", Whole, nullable=False),
        sa.Column("changed_by", Words(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant"),
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
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "name"),
        sqlite_strict=True,
    )
    op.create_table(
        "spans",
        sa.Column("tenant", Words(), nullable=False),
        sa.Column("app", Words(), nullable=False),
        sa.Column("environment", Words(), nullable=False),
        sa.Column("trace_id", Words(), nullable=False),
        sa.Column("span_id", Words(), nullable=False),
        sa.Column("received_at", Whole, nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("tenant", "app", "environment", "trace_id", "span_id"),
        sqlite_strict=True,
    )
