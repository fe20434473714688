"""What can be in an audit log: a closed list, and what each kind of record must say.

An action is never removed and never changes its meaning; a new one needs nothing but a line here.
A reader that does not know an action still verifies its record, since that needs no understanding.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ACTIONS", "OUTCOMES"]

OUTCOMES: Final = frozenset({"ok", "failed", "denied", "refused", "cancelled", "expired"})
"""``denied`` is for want of a permission or tier, ``refused`` for any other reason."""

_CHANGE: Final = ("subject", "permission", "outcome")

ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    # A replay is two records: what is wanted, before anything runs, and what came of it.
    "replay.requested": (
        "env",
        "source",
        "replay_id",
        "boundaries",
        "payload_digest_before",
        "payload_digest_after",
        "permission",
        "tier",
    ),
    "replay.finished": ("env", "source", "replay_id", "outcome"),
    "replay.cancelled": ("env", "source", "replay_id", "permission", "outcome"),
    "replay.denied": ("env", "source", "permission", "code", "outcome"),
    "access.denied": ("permission", "code", "outcome"),
    "session.opened": ("outcome",),
    "session.closed": ("outcome",),
    "session.refused": ("code", "outcome"),
    "user.created": _CHANGE,
    "user.changed": _CHANGE,
    "user.removed": _CHANGE,
    "key.created": _CHANGE,
    "key.revoked": _CHANGE,
    "role.granted": _CHANGE,
    "role.revoked": _CHANGE,
    "tenant.created": _CHANGE,
    "tenant.changed": _CHANGE,
    "tier.changed": (*_CHANGE, "tier"),
    "environment.changed": _CHANGE,
    "noise.changed": _CHANGE,
    "batch.confirmed": _CHANGE,
    "batch.cancelled": _CHANGE,
    "agent.registered": ("env", "subject", "outcome"),
    "agent.refused": ("env", "subject", "code", "outcome"),
    "audit.read": ("permission", "outcome"),
    "audit.exported": ("permission", "outcome"),
    "data.exported": _CHANGE,
    "retention.changed": _CHANGE,
    "retention.applied": ("subject", "outcome"),
    "log.opened": (),
    "log.rotated": ("rotation",),
}
"""The actions of version 1, each with the fields of a record that must not be empty."""
