"""Records of what administrators change."""

from __future__ import annotations

from reenact.audit.record import Record, Subject
from reenact.server.audit import actor_of
from reenact.server.ports import Principal

__all__ = ["changed"]


def changed(
    principal: Principal,
    action: str,
    subject: str,
    id: str,
    permission: str,
    *,
    tenant: str = "",
    tier: str = "",
    **details: str,
) -> Record:
    """``principal`` did ``action`` to the ``subject`` called ``id``, in their own tenant unless it is
    said."""
    return Record(
        tenant=tenant or principal.tenant.id,
        actor=actor_of(principal),
        action=action,
        subject=Subject(subject, id),
        permission=permission,
        tier=tier,
        outcome="ok",
        details={name: text for name, text in details.items() if text},
    )
