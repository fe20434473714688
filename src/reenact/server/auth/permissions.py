"""Permissions, roles, grants and tiers; the only module that decides about access (pure).

The default is deny. Wildcards do not exist, and each role lacks some permissions: replays in production
and replays with live calls must be granted explicitly. ``docs/reference/server-api.md`` documents
this table, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

import msgspec

__all__ = [
    "AGENT_KEY",
    "ANYWHERE",
    "GRANTABLE",
    "PERMISSIONS",
    "ROLES",
    "Decision",
    "EnvironmentKind",
    "Grant",
    "Permission",
    "ResourceScope",
    "Role",
    "Tier",
    "decide",
    "has_anywhere",
    "is_entitled",
    "is_grantable",
    "permissions_of",
    "replay_permission",
]

Permission = Literal[
    "exchange:read",
    "agent:read",
    "capture:read",
    "capture:write",
    "replay:execute",
    "replay:execute:production",
    "replay:live",
    "audit:read",
    "audit:export",
    "tenant:admin",
    "platform:admin",
    "metrics:read",
    "agent:connect",
]
Role = Literal["viewer", "replayer", "production replayer", "tenant admin", "platform admin"]
Tier = Literal["low", "mid", "high", "business"]
EnvironmentKind = Literal["production", "non-production"]

PERMISSIONS: Final[tuple[Permission, ...]] = get_args(Permission)

_READS: Final[frozenset[Permission]] = frozenset({"exchange:read", "agent:read", "capture:read"})
_REPLAYS: Final[frozenset[Permission]] = _READS | {"replay:execute", "capture:write"}

ROLES: Final[dict[Role, frozenset[Permission]]] = {
    "viewer": _READS,
    "replayer": _REPLAYS,
    "production replayer": _REPLAYS | {"replay:execute:production"},
    "tenant admin": _READS | {"audit:read", "audit:export", "tenant:admin"},
    "platform admin": frozenset({"platform:admin", "metrics:read"}),
}

AGENT_KEY: Final = "agent key"
"""Permission set of app agent keys. It cannot be granted."""

GRANTABLE: Final = tuple(one for one in PERMISSIONS if one != "agent:connect")
"""Permissions that can be granted by their names."""

_REPLAY_TIERS: Final[frozenset[Tier]] = frozenset({"high", "business"})


_TENANT_WIDE: Final[frozenset[Permission]] = frozenset(
    {
        "capture:read",
        "capture:write",
        "audit:export",
        "tenant:admin",
        "platform:admin",
        "metrics:read",
    }
)
"""Permissions whose resources have no environment and no app, so that a limited grant gives none."""


class ResourceScope(msgspec.Struct, frozen=True):
    """Environment and app of a resource.

    None means that the resource has no environment or no app.
    """

    environment: str | None = None
    app: str | None = None


ANYWHERE: Final = ResourceScope()


class Grant(msgspec.Struct, frozen=True):
    """A role, or one permission by its name, everywhere in the tenant or in one place of it.

    ``expires_at`` is in milliseconds; 0 for never."""

    what: str
    environment: str = ""
    app: str = ""
    expires_at: int = 0
    id: str = ""

    def covers(self, place: ResourceScope, now: int) -> bool:
        """Does it hold there, now? A limited grant does not cover what has no place at all."""
        return (
            (not self.expires_at or now < self.expires_at)
            and (not self.environment or self.environment == place.environment)
            and (not self.app or self.app == place.app)
        )


class Decision(msgspec.Struct, frozen=True):
    """``rule`` is what allowed it (a role or permission, with its limits), or ``default deny``."""

    allowed: bool
    permission: Permission
    rule: str


def permissions_of(what: str) -> frozenset[Permission]:
    """Return the permissions of a grant of ``what``: a role, a grantable permission or
    :data:`AGENT_KEY`.

    Anything else has none.
    """
    if what == AGENT_KEY:
        return frozenset({"agent:connect"})
    for role, permissions in ROLES.items():
        if role == what:
            return permissions
    return frozenset(one for one in PERMISSIONS if one == what and one in GRANTABLE)


def is_grantable(what: str) -> bool:
    """Can it be granted: a role, or a permission by its name?"""
    return what in ROLES or what in GRANTABLE


def decide(
    grants: Iterable[Grant], permission: Permission, place: ResourceScope, now: int
) -> Decision:
    """May the holder of ``grants`` do this there?"""
    for grant in grants:
        if permission in permissions_of(grant.what) and grant.covers(place, now):
            limits = "".join(f" in {one}" for one in (grant.environment, grant.app) if one)
            return Decision(True, permission, f"{grant.what}{limits}")
    return Decision(False, permission, "default deny")


def has_anywhere(grants: Iterable[Grant], permission: Permission, now: int) -> bool:
    """Return whether there is a location in which the holder has ``permission``."""
    if permission in _TENANT_WIDE:
        return decide(grants, permission, ANYWHERE, now).allowed
    return any(
        permission in permissions_of(grant.what)
        and (not grant.expires_at or now < grant.expires_at)
        for grant in grants
    )


def replay_permission(kind: EnvironmentKind) -> Permission:
    """The one that a replay in an environment of this kind needs."""
    return "replay:execute" if kind == "non-production" else "replay:execute:production"


def is_entitled(tier: Tier, dedicated: bool) -> bool:
    """Is there exchange replay for such a tenant?"""
    return dedicated and tier in _REPLAY_TIERS
