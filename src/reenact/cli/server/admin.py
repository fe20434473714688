"""The ``tenant``, ``user``, ``key``, ``environment`` and ``retention`` commands."""

from __future__ import annotations

import argparse
import sys
from datetime import datetime
from typing import Any

from reenact.cli._client import Client, part, signed_in_client
from reenact.cli._output import (
    NOTHING,
    Column,
    escape_controls,
    field,
    print_result,
    print_table,
    rows,
    time_field,
)
from reenact.cli._parser import (
    Arguments,
    Command,
    Group,
    argument,
    json_flag,
    list_flags,
    number,
    takes,
)
from reenact.errors import UsageError
from reenact.search.query import read_moment

__all__ = ["COMMANDS", "USERS"]

_TIERS = ("low", "mid", "high", "business")
_ROLES = ("viewer", "replayer", "production replayer", "tenant admin", "platform admin")


def _yes(name: str) -> Any:
    return lambda one: "yes" if one.get(name) else "no"


def _grants(one: dict[str, Any]) -> str:
    return "\n".join(map(_grant, one.get("grants") or [])) or NOTHING


def _grant(one: dict[str, Any]) -> str:
    where = " in ".join(filter(None, (one.get("app"), one.get("environment"))))
    return f"{one.get('role')}{f' ({where})' if where else ''} [{one.get('id')}]"


_TENANTS: tuple[Column, ...] = (
    ("tenant", field("id")),
    ("name", field("name")),
    ("tier", field("tier")),
    ("dedicated", _yes("dedicated")),
)
USERS: tuple[Column, ...] = (
    ("user", field("id")),
    ("email", field("email")),
    ("state", field("state")),
    ("since", time_field("createdAt")),
    ("grants", _grants),
)
_KEYS: tuple[Column, ...] = (
    ("key", field("id")),
    ("kind", field("kind")),
    ("name", field("name")),
    ("app", field("app")),
    ("environment", field("environment")),
    ("owner", field("owner")),
    ("last used", time_field("lastUsedAt")),
    ("expires", time_field("expiresAt")),
    ("grants", _grants),
)
_ENVIRONMENTS: tuple[Column, ...] = (("environment", field("name")), ("kind", field("kind")))


def _list(
    path: str, table: tuple[Column, ...], *, description: str, example: str, none: str
) -> Command:
    """Return the command that lists everything at ``path``; ``none`` is printed for an empty list."""

    def ls(args: argparse.Namespace) -> int:
        print_table(args, signed_in_client().items(path, {}, args.limit), table, none)
        return 0

    what = f"the {path.rpartition('/')[2]}"
    return Command(
        summary=f"a table of {what}",
        description=description,
        example=example,
        arguments=list_flags(what),
        run=ls,
    )


_USER = argument("user USER", "the user, by id or e-mail address")


def _limits(what: str) -> Arguments:
    return takes(
        argument("--environment NAME", f"{what} in this environment"),
        argument("--app APP", f"{what} for this app"),
        argument("--expires TIME", "until then: 2026-12-31"),
    )


# Tenants


def add_tenant(args: argparse.Namespace) -> int:
    asked = {name: getattr(args, name) for name in ("name", "tier", "dedicated", "admin")}
    found = signed_in_client().send("POST", "/api/v1/tenants", asked)
    if not args.json:
        print(f"tenant {escape_controls(str(found.get('id')))}", file=sys.stderr)
    return _print_invitation(args, found, found.get("admin") or {})


def set_tenant(args: argparse.Namespace) -> int:
    wanted: dict[str, Any] = {}
    if args.tier is not None:
        wanted["tier"] = args.tier
    if args.dedicated is not None:
        wanted["dedicated"] = args.dedicated == "yes"
    if not wanted:
        raise UsageError("nothing is to be set", hint="--tier TIER, --dedicated yes|no")
    client = signed_in_client()
    found = client.send("PATCH", f"/api/v1/tenants/{part(_tenant(client, args.tenant))}", wanted)
    return print_result(args, found, f"tenant {args.tenant} is changed")


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
        f"unknown tenant {escape_controls(text)}", hint="list the tenants: reenact tenant ls"
    )


# Users


def add_user(args: argparse.Namespace) -> int:
    asked = {"email": args.email, "grants": [{"role": role} for role in args.role]}
    found = signed_in_client().send("POST", "/api/v1/users", asked)
    return _print_invitation(args, found, found)


def invite(args: argparse.Namespace) -> int:
    client = signed_in_client()
    found = client.send("POST", f"/api/v1/users/{part(_user(client, args.user))}/invite")
    return _print_invitation(args, found, found)


def _print_invitation(args: argparse.Namespace, found: Any, user: dict[str, Any]) -> int:
    if not args.json:
        who = escape_controls(str(user.get("email")))
        print(f"a link to set the password with, for {who} alone, once:", file=sys.stderr)
        if str(user.get("link")).startswith("/"):
            print(
                "prefix it with the address of the server, or start reenact serve with --public-url",
                file=sys.stderr,
            )
    return print_result(args, found, str(user.get("link")))


def remove_user(args: argparse.Namespace) -> int:
    client = signed_in_client()
    user = _user(client, args.user)
    found = client.send("DELETE", f"/api/v1/users/{part(user)}")
    return print_result(args, found, f"user {args.user} is removed")


def grant(args: argparse.Namespace) -> int:
    client = signed_in_client()
    asked = _grant_json(args.role, args.environment, args.app, args.expires)
    found = client.send("POST", f"/api/v1/users/{part(_user(client, args.user))}/grants", asked)
    return print_result(args, found, f"{args.user} has {_grant(found)}")


def revoke(args: argparse.Namespace) -> int:
    client = signed_in_client()
    user = _user(client, args.user)
    found = client.send("DELETE", f"/api/v1/users/{part(user)}/grants/{part(args.grant)}")
    return print_result(args, found, f"{args.user} has no {args.grant} any more")


def _user(client: Client, text: str) -> str:
    """Return the id of the user with this id or e-mail address. Raises :class:`UsageError`."""
    if "@" not in text:
        return text
    for one in client.items("/api/v1/users", {}, sys.maxsize):
        if str(one.get("email", "")).lower() == text.lower():
            return str(one["id"])
    raise UsageError(f"user {text} does not exist", hint="list the users: reenact user ls")


def _grant_json(
    role: str, environment: str | None, app: str | None, expires: str | None
) -> dict[str, Any]:
    limits = {"environment": environment, "app": app, "expiresAt": _end_of(expires)}
    return {"role": role, **{name: value for name, value in limits.items() if value}}


def _end_of(text: str | None) -> int | None:
    return None if text is None else read_moment(text, datetime.now().astimezone(), end=True)


# Keys


def add_key(args: argparse.Namespace) -> int:
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
        asked["grants"] = [
            _grant_json(role, args.environment, args.app, None) for role in args.role
        ]
    if args.expires is not None:
        asked["expiresAt"] = _end_of(args.expires)
    found = signed_in_client().send("POST", "/api/v1/keys", asked)
    if not args.json:
        print(
            f"key {escape_controls(str(found.get('id')))}; it is shown only once:",
            file=sys.stderr,
        )
    return print_result(args, found, str(found.get("key")))


def remove_key(args: argparse.Namespace) -> int:
    found = signed_in_client().send("DELETE", f"/api/v1/keys/{part(args.id)}")
    return print_result(args, found, f"key {args.id} is revoked")


# Environments


def set_environment(args: argparse.Namespace) -> int:
    path = f"/api/v1/environments/{part(args.name)}"
    found = signed_in_client().send("PUT", path, {"kind": args.kind})
    return print_result(args, found, f"environment {args.name} is {args.kind}")


# Retention

_RETENTION = "/api/v1/retention"
_KINDS = ("exchanges", "recordings", "captures")


def show(args: argparse.Namespace) -> int:
    return _print_retention(args, signed_in_client().get(_RETENTION))


def set_days(args: argparse.Namespace) -> int:
    asked = {kind: getattr(args, kind) for kind in _KINDS}
    changed = {kind: days for kind, days in asked.items() if days is not None}
    if not changed:
        raise UsageError(
            "nothing is to be set", hint="--exchanges DAYS, --recordings DAYS, --captures DAYS"
        )
    client = signed_in_client()
    found = client.send("PUT", _RETENTION, {**client.get(_RETENTION), **changed})
    if any(changed.values()):
        print(
            "reenact: what is older goes within the hour, and does not come back", file=sys.stderr
        )
    return _print_retention(args, found)


def _print_retention(args: argparse.Namespace, found: dict[str, Any]) -> int:
    return print_result(args, found, *rows([(kind, _days(found.get(kind))) for kind in _KINDS]))


def _days(days: Any) -> str:
    if not isinstance(days, int) or not days:
        return "for ever"
    return "1 day" if days == 1 else f"{days} days"


COMMANDS = {
    "tenant": Group(
        description="Tenants share nothing but the server. For platform administrators.",
        example="reenact tenant ls",
        commands={
            "ls": _list(
                "/api/v1/tenants",
                _TENANTS,
                description="Lists the tenants of this server, with their tiers.",
                example="reenact tenant ls",
                none="no tenant",
            ),
            "add": Command(
                summary="create a tenant",
                description="Creates a tenant and prints the link for its first administrator. Exchange replay is available in the tiers high and business on dedicated machines.",
                example="reenact tenant add acme --admin ann@acme.example --tier business --dedicated",
                arguments=takes(
                    argument("name NAME", "the name of the tenant"),
                    argument("--admin EMAIL", "its first administrator", required=True),
                    argument(
                        "--tier",
                        "the tier that the tenant has paid for",
                        choices=_TIERS,
                        default="low",
                    ),
                    argument("--dedicated", "the tenant has dedicated machines"),
                    json_flag("the tenant as JSON"),
                ),
                run=add_tenant,
            ),
            "set": Command(
                summary="change a tenant",
                description="Changes the tier of a tenant, or whether it has dedicated machines.",
                example="reenact tenant set acme --tier high",
                arguments=takes(
                    argument("tenant TENANT", "the tenant, by name or id"),
                    argument("--tier", "the tier that the tenant has paid for", choices=_TIERS),
                    argument(
                        "--dedicated",
                        "whether the tenant has dedicated machines",
                        choices=("yes", "no"),
                    ),
                    json_flag("the tenant as JSON"),
                ),
                run=set_tenant,
            ),
        },
    ),
    "user": Group(
        description="Manages users and their grants. For tenant administrators.",
        example="reenact user ls",
        commands={
            "ls": _list(
                "/api/v1/users",
                USERS,
                description="Lists the users of your tenant with their permissions.",
                example="reenact user ls --json",
                none="no user",
            ),
            "add": Command(
                summary="invite a user",
                description="Creates a user and prints a link to set the password. The link is valid once.",
                example="reenact user add ann@acme.example --role viewer",
                arguments=takes(
                    argument("email EMAIL", "who"),
                    argument(
                        "--role ROLE...",
                        f"a role ({', '.join(_ROLES)}) or a permission, everywhere (repeatable)",
                    ),
                    json_flag("the user, with the link, as JSON"),
                ),
                run=add_user,
            ),
            "invite": Command(
                summary="another link for the password",
                description="Prints another link to set the password with. The password so far, and all sessions, end.",
                example="reenact user invite ann@acme.example",
                arguments=takes(_USER, json_flag("the user, with the link, as JSON")),
                run=invite,
            ),
            "rm": Command(
                summary="remove a user",
                description="Removes a user; sessions and keys of theirs end at once.",
                example="reenact user rm ann@acme.example",
                arguments=takes(_USER, json_flag("what was done as JSON")),
                run=remove_user,
            ),
            "grant": Command(
                summary="let a user do something",
                description="Grants a role or a permission, everywhere or for one environment or app. No role has all "
                "permissions.",
                example="reenact user grant ann@acme.example replayer --environment staging",
                arguments=takes(
                    _USER,
                    argument(
                        "role ROLE",
                        f"a role ({', '.join(_ROLES)}), or a permission, e.g. replay:live",
                    ),
                    _limits("only"),
                    json_flag("the grant as JSON"),
                ),
                run=grant,
            ),
            "revoke": Command(
                summary="take a grant back",
                description="Takes a grant back. It holds no longer, at once.",
                example="reenact user revoke ann@acme.example grt_01J",
                arguments=takes(
                    _USER,
                    argument("grant GRANT", "the grant, as `user ls` shows it in brackets"),
                    json_flag("what was done as JSON"),
                ),
                run=revoke,
            ),
        },
    ),
    "key": Group(
        description="Keys of agents are for one app and environment; keys of programs have grants.",
        example="reenact key ls",
        commands={
            "ls": _list(
                "/api/v1/keys",
                _KEYS,
                description="Lists the keys of your tenant without their secrets.",
                example="reenact key ls",
                none="no key",
            ),
            "add": Command(
                summary="create a key for an app or a program",
                description="Creates a key and prints it. The key is shown only once.",
                example="reenact key add shop-staging --app shop --environment staging",
                arguments=takes(
                    argument("name NAME", "the name of the key"),
                    argument(
                        "--kind",
                        "for an app, or for a program",
                        choices=("agent", "user"),
                        default="agent",
                    ),
                    argument(
                        "--role ROLE...",
                        f"of the kind user: a role ({', '.join(_ROLES)}) or a permission (repeatable)",
                    ),
                    _limits("of an agent the one it is for; of a program only"),
                    json_flag("the key as JSON"),
                ),
                run=add_key,
            ),
            "rm": Command(
                summary="revoke a key",
                description="Revokes a key, at once.",
                example="reenact key rm key_01J",
                arguments=takes(
                    argument("id KEY", "the id of the key, never the key itself"),
                    json_flag("what was done as JSON"),
                ),
                run=remove_key,
            ),
        },
    ),
    "environment": Group(
        description="Replays in production need a permission of their own and a reason.",
        example="reenact environment ls",
        commands={
            "ls": _list(
                "/api/v1/environments",
                _ENVIRONMENTS,
                description="Lists the environments. One that is not listed counts as production.",
                example="reenact environment ls",
                none="no environment: all count as production",
            ),
            "set": Command(
                summary="say what an environment is",
                description="Declares whether an environment is production.",
                example="reenact environment set staging non-production",
                arguments=takes(
                    argument("name NAME", "the environment"),
                    argument("kind", "what it is", choices=("production", "non-production")),
                    json_flag("the environment as JSON"),
                ),
                run=set_environment,
            ),
        },
    ),
    "retention": Group(
        description="Exchanges, recordings and captures are stored permanently by default. For tenant "
        "administrators.",
        example="reenact retention show",
        commands={
            "show": Command(
                summary="show the retention times",
                description="Shows how many days exchanges, recordings and captures are stored.",
                example="reenact retention show",
                arguments=json_flag("the days as JSON"),
                run=show,
            ),
            "set": Command(
                summary="change the retention times",
                description="Sets the number of days; options that are not given keep their values. Older data is erased "
                "within the hour, permanently. The audit log stays, and its proofs remain valid.",
                example="reenact retention set --exchanges 90 --recordings 30",
                arguments=takes(
                    argument(
                        "--exchanges DAYS",
                        "exchanges with their recordings, and payloads of the audit log; 0 is unlimited",
                        type=number,
                    ),
                    argument(
                        "--recordings DAYS",
                        "recordings of the calls of exchanges; 0 is unlimited",
                        type=number,
                    ),
                    argument("--captures DAYS", "captures of runs; 0 is unlimited", type=number),
                    json_flag("the days as JSON"),
                ),
                run=set_days,
            ),
        },
    ),
}
