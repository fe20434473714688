"""The table of identities at OpenID providers."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column

from reenact.server.storage.column_types import Whole, Words
from reenact.server.storage.tables import of_tenant

__all__ = ["IDENTITIES"]

IDENTITIES: Final = of_tenant(
    "identities",
    Column("user_id", Words, nullable=False),
    Column("issuer", Words, nullable=False),
    Column("subject", Words, nullable=False),
    Column("linked_at", Whole, nullable=False),
    key=("user_id", "issuer"),
)
"""Who a user is to an issuer, from the first time on: an address that is given to somebody else
later opens no account."""
