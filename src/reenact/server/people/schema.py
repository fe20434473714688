"""Requests and responses of the API of people, keys and grants."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reenact.server.auth.credentials import KeyKind
from reenact.server.auth.permissions import Grant
from reenact.server.runtime import TenantFacts
from reenact.server.storage.people import Key, User

__all__ = [
    "AcceptedInvite",
    "ActorView",
    "GrantRequest",
    "GrantView",
    "Invitation",
    "InviteAcceptance",
    "KeyRequest",
    "KeyView",
    "NewKey",
    "OwnKeyRequest",
    "SessionView",
    "SetupRequest",
    "SignInRequest",
    "TenantName",
    "UserRequest",
    "UserView",
]


class _Shape(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    pass


class _Asked(_Shape, frozen=True, forbid_unknown_fields=True):
    def __repr__(self) -> str:
        """Some of them carry secrets."""
        return f"{type(self).__name__}()"


class SetupRequest(_Asked, frozen=True):
    """Request for the first account. ``token`` is part of the link that the first start prints."""

    token: str
    email: str
    password: str


class SignInRequest(_Asked, frozen=True):
    """``tenant`` is needed where one address and password fit accounts in several."""

    email: str
    password: str
    tenant: str = ""


class InviteAcceptance(_Asked, frozen=True):
    """Request to accept an invitation. ``token`` is part of its link."""

    token: str
    password: str


class GrantRequest(_Asked, frozen=True):
    """``role`` is a role, or the name of a permission."""

    role: str
    environment: str = ""
    app: str = ""
    expires_at: int = 0


class UserRequest(_Asked, frozen=True):
    """A user to invite, with all their grants or not at all."""

    email: str
    grants: list[GrantRequest] = []


class KeyRequest(_Asked, frozen=True):
    """A new key: for agents with ``app`` and ``environment``, for users with ``grants``."""

    kind: KeyKind
    name: str
    app: str = ""
    environment: str = ""
    grants: tuple[GrantRequest, ...] = ()
    expires_at: int = 0


class OwnKeyRequest(_Asked, frozen=True):
    """A new key that can do what its owner can. ``expiresAt`` 0 is never."""

    name: str = "command line"
    expires_at: int = 0


class GrantView(_Shape, frozen=True):
    """A grant.

    An empty ``environment`` or ``app`` means all of them, ``expiresAt`` 0 means never.
    """

    id: str
    role: str
    environment: str
    app: str
    expires_at: int

    @classmethod
    def of(cls, grant: Grant) -> GrantView:
        return cls(
            id=grant.id,
            role=grant.what,
            environment=grant.environment,
            app=grant.app,
            expires_at=grant.expires_at,
        )


class UserView(_Shape, frozen=True):
    """``state`` is ``active``, or ``invited`` until there is a password."""

    id: str
    email: str
    state: str
    created_at: int
    grants: list[GrantView]

    @classmethod
    def of(cls, user: User, grants: Iterable[Grant]) -> UserView:
        return cls(
            id=user.id,
            email=user.email,
            state="active" if user.password else "invited",
            created_at=user.created_at,
            grants=list(map(GrantView.of, grants)),
        )


class Invitation(_Shape, frozen=True):
    """``link`` is for the user, once."""

    id: str
    email: str
    link: str
    expires_at: int


class AcceptedInvite(_Shape, frozen=True):
    """The account that has a password now."""

    id: str
    email: str
    tenant: str


class KeyView(_Shape, frozen=True):
    """``owner`` is the user whose key it is; empty for keys with grants of their own."""

    id: str
    kind: str
    name: str
    app: str
    environment: str
    owner: str
    created_at: int
    expires_at: int
    last_used_at: int
    grants: list[GrantView]

    @classmethod
    def of(cls, key: Key, grants: Iterable[Grant]) -> KeyView:
        names = [name for name in cls.__struct_fields__ if name != "grants"]
        shown = {name: getattr(key, name) for name in names}
        return cls(**shown, grants=list(map(GrantView.of, grants)))


class NewKey(_Shape, frozen=True):
    """``key`` is the key itself, here and never again."""

    id: str
    kind: str
    name: str
    app: str
    environment: str
    expires_at: int
    key: str

    def __repr__(self) -> str:
        return f"NewKey({self.id})"


class ActorView(_Shape, frozen=True):
    """An actor, as records name it."""

    type: str
    id: str
    name: str


class TenantName(_Shape, frozen=True):
    """A tenant, as a session names it."""

    id: str
    name: str


class SessionView(_Shape, frozen=True):
    """The caller, their tenant and their permissions. ``csrfToken`` is empty for keys."""

    actor: ActorView
    tenant: TenantName
    tier: str
    grants: list[GrantView]
    csrf_token: str

    @classmethod
    def of(
        cls,
        actor: ActorView,
        tenant: TenantFacts,
        grants: Iterable[Grant],
        csrf_token: str,
    ) -> SessionView:
        return cls(
            actor=actor,
            tenant=TenantName(id=tenant.id, name=tenant.name),
            tier=tenant.tier,
            grants=list(map(GrantView.of, grants)),
            csrf_token=csrf_token,
        )
