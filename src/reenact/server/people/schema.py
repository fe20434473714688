"""Requests and responses of the API of people, keys and grants."""

from __future__ import annotations

import msgspec

from reenact.server.auth.credentials import KeyKind
from reenact.server.auth.permissions import Grant
from reenact.server.storage.people import Key, User

__all__ = [
    "GrantAsked",
    "GrantShown",
    "InviteTaken",
    "InviteUsed",
    "Invited",
    "KeyAsked",
    "KeyMade",
    "KeyShown",
    "OwnKeyAsked",
    "SessionShown",
    "SetupAsked",
    "SignInAsked",
    "UserAsked",
    "UserShown",
    "WhereShown",
    "WhoShown",
    "show_grant",
    "show_key",
    "show_user",
]


class _Shape(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    pass


class _Asked(_Shape, frozen=True, forbid_unknown_fields=True):
    def __repr__(self) -> str:
        """Some of them carry secrets."""
        return f"{type(self).__name__}()"


class SetupAsked(_Asked, frozen=True):
    """Request for the first account. ``token`` is part of the link that the first start prints."""

    token: str
    email: str
    password: str


class SignInAsked(_Asked, frozen=True):
    """``tenant`` is needed where one address and password fit accounts in several."""

    email: str
    password: str
    tenant: str = ""


class InviteTaken(_Asked, frozen=True):
    """Request to accept an invitation. ``token`` is part of its link."""

    token: str
    password: str


class GrantAsked(_Asked, frozen=True):
    """``role`` is a role, or the name of a permission."""

    role: str
    environment: str = ""
    app: str = ""
    expires_at: int = 0


class UserAsked(_Asked, frozen=True):
    """A user to invite, with all their grants or not at all."""

    email: str
    grants: list[GrantAsked] = []


class KeyAsked(_Asked, frozen=True):
    """A new key: for agents with ``app`` and ``environment``, for users with ``grants``."""

    kind: KeyKind
    name: str
    app: str = ""
    environment: str = ""
    grants: tuple[GrantAsked, ...] = ()
    expires_at: int = 0


class OwnKeyAsked(_Asked, frozen=True):
    """A new key that can do what its owner can. ``expiresAt`` 0 is never."""

    name: str = "command line"
    expires_at: int = 0


class GrantShown(_Shape, frozen=True):
    """A grant.

    An empty ``environment`` or ``app`` means all of them, ``expiresAt`` 0 means never.
    """

    id: str
    role: str
    environment: str
    app: str
    expires_at: int


class UserShown(_Shape, frozen=True):
    """``state`` is ``active``, or ``invited`` until there is a password."""

    id: str
    email: str
    state: str
    created_at: int
    grants: list[GrantShown]


class Invited(_Shape, frozen=True):
    """``link`` is for the user, once."""

    id: str
    email: str
    link: str
    expires_at: int


class InviteUsed(_Shape, frozen=True):
    """The account that has a password now."""

    id: str
    email: str
    tenant: str


class KeyShown(_Shape, frozen=True):
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
    grants: list[GrantShown]


class KeyMade(_Shape, frozen=True):
    """``key`` is the key itself, here and never again."""

    id: str
    kind: str
    name: str
    app: str
    environment: str
    expires_at: int
    key: str

    def __repr__(self) -> str:
        return f"KeyMade({self.id})"


class WhoShown(_Shape, frozen=True):
    """An actor, as records name it."""

    type: str
    id: str
    name: str


class WhereShown(_Shape, frozen=True):
    """A tenant, as a session names it."""

    id: str
    name: str


class SessionShown(_Shape, frozen=True):
    """The caller, their tenant and their permissions. ``csrfToken`` is empty for keys."""

    actor: WhoShown
    tenant: WhereShown
    tier: str
    grants: list[GrantShown]
    csrf_token: str


def show_grant(grant: Grant) -> GrantShown:
    """A grant as it is answered."""
    return GrantShown(
        id=grant.id,
        role=grant.what,
        environment=grant.environment,
        app=grant.app,
        expires_at=grant.expires_at,
    )


def show_user(user: User, grants: tuple[Grant, ...]) -> UserShown:
    """A user as they are answered: without password and invitation."""
    return UserShown(
        id=user.id,
        email=user.email,
        state="active" if user.password else "invited",
        created_at=user.created_at,
        grants=list(map(show_grant, grants)),
    )


def show_key(key: Key, grants: tuple[Grant, ...]) -> KeyShown:
    """A key as it is answered: without its secret, and without the hash of it."""
    return KeyShown(
        id=key.id,
        kind=key.kind,
        name=key.name,
        app=key.app,
        environment=key.environment,
        owner=key.owner,
        created_at=key.created_at,
        expires_at=key.expires_at,
        last_used_at=key.last_used_at,
        grants=list(map(show_grant, grants)),
    )
