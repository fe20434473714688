"""``tenant``, ``user``, ``key`` and ``environment``: who may do what, and where."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from typing import Any

from reenact.cli.client import Client, part, signed_in_client
from reenact.cli.listing import NOTHING, Column, print_table, told, when
from reenact.cli.render import escape_controls, json_line
from reenact.errors import UsageError
from reenact.search.moments import read_moment

__all__ = [
    "add_key",
    "add_tenant",
    "add_user",
    "grant",
    "invite",
    "ls_environments",
    "ls_keys",
    "ls_tenants",
    "ls_users",
    "remove_key",
    "remove_user",
    "revoke",
    "set_environment",
    "set_tenant",
]


def _yes(name: str) -> Any:
    return lambda one: "yes" if one.get(name) else "no"


def _grants(one: dict[str, Any]) -> str:
    return "\n".join(map(_grant, one.get("grants") or [])) or NOTHING


def _grant(one: dict[str, Any]) -> str:
    where = " in ".join(filter(None, (one.get("app"), one.get("environment"))))
    return f"{one.get('role')}{f' ({where})' if where else ''} [{one.get('id')}]"


_TENANTS: tuple[Column, ...] = (
    ("tenant", told("id")),
    ("name", told("name")),
    ("tier", told("tier")),
    ("dedicated", _yes("dedicated")),
)
_USERS: tuple[Column, ...] = (
    ("user", told("id")),
    ("email", told("email")),
    ("state", told("state")),
    ("since", when("createdAt")),
    ("grants", _grants),
)
_KEYS: tuple[Column, ...] = (
    ("key", told("id")),
    ("kind", told("kind")),
    ("name", told("name")),
    ("app", told("app")),
    ("environment", told("environment")),
    ("owner", told("owner")),
    ("last used", when("lastUsedAt")),
    ("expires", when("expiresAt")),
    ("grants", _grants),
)
_ENVIRONMENTS: tuple[Column, ...] = (("environment", told("name")), ("kind", told("kind")))


def _ls(args: argparse.Namespace, path: str, table: tuple[Column, ...], none: str) -> int:
    print_table(args, signed_in_client().items(path, {}, args.limit), table, none)
    return 0


def _done(args: argparse.Namespace, found: Any, words: str) -> int:
    if args.json:
        print(json_line(found if found is not None else {"ok": True}))
    else:
        print(escape_controls(words))
    return 0


# Tenants


def ls_tenants(args: argparse.Namespace) -> int:
    """The command ``tenant ls``."""
    return _ls(args, "/api/v1/tenants", _TENANTS, "no tenant")


def add_tenant(args: argparse.Namespace) -> int:
    """The command ``tenant add``."""
    asked = {
        "name": args.name,
        "tier": args.tier,
        "dedicated": args.dedicated,
        "admin": args.admin,
    }
    found = signed_in_client().send("POST", "/api/v1/tenants", asked)
    if not args.json:
        print(f"tenant {escape_controls(str(found.get('id')))}", file=sys.stderr)
    return _invited(args, found, found.get("admin") or {})


def set_tenant(args: argparse.Namespace) -> int:
    """The command ``tenant set``."""
    wanted: dict[str, Any] = {}
    if args.tier is not None:
        wanted["tier"] = args.tier
    if args.dedicated is not None:
        wanted["dedicated"] = args.dedicated == "yes"
    if not wanted:
        raise UsageError("nothing is to be set", hint="--tier TIER, --dedicated yes|no")
    client = signed_in_client()
    found = client.send("PATCH", f"/api/v1/tenants/{part(_tenant(client, args.tenant))}", wanted)
    return _done(args, found, f"tenant {args.tenant} is changed")


def _tenant(client: Client, text: str) -> str:
    """Return the id of the tenant with this id or name. Raises :class:`UsageError`."""
    tenants = list(client.items("/api/v1/tenants", {}, sys.maxsize))
    if any(one.get("id") == text for one in tenants):
        return text
    named = [str(one["id"]) for one in tenants if one.get("name") == text]
    if len(named) == 1:
        return named[0]
    if named:
        raise UsageError(
            f"{len(named)} tenants are called {escape_controls(text)}: {', '.join(named)}",
            hint="give the id instead",
        )
    raise UsageError(
        f"unknown tenant {escape_controls(text)}", hint="see what there is: reenact tenant ls"
    )


# Users


def ls_users(args: argparse.Namespace) -> int:
    """The command ``user ls``."""
    return _ls(args, "/api/v1/users", _USERS, "no user")


def add_user(args: argparse.Namespace) -> int:
    """The command ``user add``."""
    asked = {"email": args.email, "grants": [{"role": role} for role in args.role]}
    found = signed_in_client().send("POST", "/api/v1/users", asked)
    return _invited(args, found, found)


def invite(args: argparse.Namespace) -> int:
    """The command ``user invite``."""
    client = signed_in_client()
    found = client.send("POST", f"/api/v1/users/{part(_user(client, args.user))}/invite")
    return _invited(args, found, found)


def _invited(args: argparse.Namespace, found: Any, user: dict[str, Any]) -> int:
    if not args.json:
        who = escape_controls(str(user.get("email")))
        print(f"a link to set the password with, for {who} alone, once:", file=sys.stderr)
        if str(user.get("link")).startswith("/"):
            print(
                "prefix it with the address of the server, or start reenact serve with --public-url",
                file=sys.stderr,
            )
    return _done(args, found, str(user.get("link")))


def remove_user(args: argparse.Namespace) -> int:
    """The command ``user rm``."""
    client = signed_in_client()
    user = _user(client, args.user)
    found = client.send("DELETE", f"/api/v1/users/{part(user)}")
    return _done(args, found, f"user {args.user} is removed")


def grant(args: argparse.Namespace) -> int:
    """The command ``user grant``."""
    client = signed_in_client()
    asked = _one_grant(args.role, args.environment, args.app, args.expires)
    found = client.send("POST", f"/api/v1/users/{part(_user(client, args.user))}/grants", asked)
    return _done(args, found, f"{args.user} has {_grant(found)}")


def revoke(args: argparse.Namespace) -> int:
    """The command ``user revoke``."""
    client = signed_in_client()
    user = _user(client, args.user)
    found = client.send("DELETE", f"/api/v1/users/{part(user)}/grants/{part(args.grant)}")
    return _done(args, found, f"{args.user} has no {args.grant} any more")


def _user(client: Client, text: str) -> str:
    """The id of the user with this e-mail address; an id as it is."""
    if "@" not in text:
        return text
    for one in client.items("/api/v1/users", {}, sys.maxsize):
        if str(one.get("email", "")).lower() == text.lower():
            return str(one["id"])
    raise UsageError(f"there is no user {text}", hint="see who there is: reenact user ls")


def _one_grant(
    role: str, environment: str | None, app: str | None, expires: str | None
) -> dict[str, Any]:
    limits = {"environment": environment, "app": app, "expiresAt": _moment(expires)}
    return {"role": role, **{name: value for name, value in limits.items() if value}}


def _moment(text: str | None) -> int | None:
    return None if text is None else read_moment(text, datetime.now().astimezone(), end=True)


# Keys


def ls_keys(args: argparse.Namespace) -> int:
    """The command ``key ls``."""
    return _ls(args, "/api/v1/keys", _KEYS, "no key")


def add_key(args: argparse.Namespace) -> int:
    """The command ``key add``."""
    asked: dict[str, Any] = {"kind": args.kind, "name": args.name}
    if args.kind == "agent":
        if args.role or not (args.app and args.environment):
            raise UsageError(
                "the key of an agent is for one app in one environment, and has no roles",
                hint="--app APP --environment NAME",
            )
        asked |= {"app": args.app, "environment": args.environment}
    else:
        if not args.role:
            raise UsageError("a key of a program needs a role", hint="--role viewer")
        asked["grants"] = [_one_grant(role, args.environment, args.app, None) for role in args.role]
    if args.expires is not None:
        asked["expiresAt"] = _moment(args.expires)
    found = signed_in_client().send("POST", "/api/v1/keys", asked)
    if not args.json:
        print(
            f"key {escape_controls(str(found.get('id')))}; it is shown now and never again:",
            file=sys.stderr,
        )
    return _done(args, found, str(found.get("key")))


def remove_key(args: argparse.Namespace) -> int:
    """The command ``key rm``."""
    found = signed_in_client().send("DELETE", f"/api/v1/keys/{part(args.id)}")
    return _done(args, found, f"key {args.id} is revoked")


# Environments


def ls_environments(args: argparse.Namespace) -> int:
    """The command ``environment ls``."""
    return _ls(
        args, "/api/v1/environments", _ENVIRONMENTS, "no environment: all count as production"
    )


def set_environment(args: argparse.Namespace) -> int:
    """The command ``environment set``."""
    path = f"/api/v1/environments/{part(args.name)}"
    found = signed_in_client().send("PUT", path, {"kind": args.kind})
    return _done(args, found, f"environment {args.name} is {args.kind}")
