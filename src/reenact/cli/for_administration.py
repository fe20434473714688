"""Arguments of commands that ask a server about its audit log, people, keys and tenants."""

from __future__ import annotations

from collections.abc import Callable

from reenact.cli.parsing import Parser, json_flag, number, table, times

__all__ = ["ARGUMENTS"]


# Audit


def _audit_ls(parser: Parser) -> None:
    add = parser.add_argument
    add("--actor", metavar="ID", help="only what this user, key or agent did")
    add("--action", metavar="NAME", help="only this action, e.g. replay.requested")
    add("--exchange", metavar="ID", help="only about this exchange")
    add("--replay", metavar="ID", help="only about this replay")
    add("--environment", metavar="NAME", help="only in this environment")
    add("--outcome", metavar="NAME", help="only what ended so, e.g. denied")
    times(parser)
    table(parser, "the records")


def _audit_head(parser: Parser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help="write it to a file")
    json_flag(parser, "the head as JSON")


def _audit_key(parser: Parser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help="write them to a file")
    json_flag(parser, "the keys as JSON")


def _audit_export(parser: Parser) -> None:
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", help="the file to write, otherwise audit.FORMAT")
    add(
        "--format",
        choices=("tar", "jsonl", "csv"),
        default="tar",
        help="tar is the whole log with its proofs; the others are lists of the records",
    )
    json_flag(parser, "what was written as JSON")


def _audit_verify(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        metavar="FILE",
        help="an export, a .tlog-proof, or what exchange prove wrote; else the server's log",
    )
    add(
        "--key",
        action="append",
        default=[],
        metavar="KEY",
        help="a verifier key that you trust, or a file with it (repeatable)",
    )
    add("--head", metavar="FILE", help="a head from before, otherwise the last one you have seen")
    add("--forget", action="store_true", help="do not remember the head for the next time")
    json_flag(parser, "the report as JSON")


def _audit_prove(parser: Parser) -> None:
    add = parser.add_argument
    add("seq", type=number, metavar="SEQ", help="the number of the record")
    add("-o", "--output", metavar="FILE", help="the file to write, otherwise SEQ.tlog-proof")
    add("--export", metavar="FILE", help="take it out of this export, and ask no server")
    json_flag(parser, "what was written as JSON")


# People, keys, tenants

_TIERS = ("low", "mid", "high", "business")
_ROLES = ("viewer", "replayer", "production replayer", "tenant admin", "platform admin")


def _tenant_ls(parser: Parser) -> None:
    table(parser, "the tenants")


def _tenant_add(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="what it is called")
    add("--admin", metavar="EMAIL", required=True, help="its first administrator")
    add("--tier", choices=_TIERS, default="low", help="what it has paid for")
    add("--dedicated", action="store_true", help="it has machines of its own")
    json_flag(parser, "the tenant as JSON")


def _tenant_set(parser: Parser) -> None:
    add = parser.add_argument
    add("tenant", metavar="TENANT", help="the tenant, by name or id")
    add("--tier", choices=_TIERS, help="what it has paid for")
    add("--dedicated", choices=("yes", "no"), help="has it machines of its own?")
    json_flag(parser, "the tenant as JSON")


def _user_ls(parser: Parser) -> None:
    table(parser, "the users")


def _user_add(parser: Parser) -> None:
    add = parser.add_argument
    add("email", metavar="EMAIL", help="who")
    add(
        "--role",
        action="append",
        default=[],
        metavar="ROLE",
        help=f"a role ({', '.join(_ROLES)}) or a permission, everywhere (repeatable)",
    )
    json_flag(parser, "the user, with the link, as JSON")


def _user_invite(parser: Parser) -> None:
    parser.add_argument("user", metavar="USER", help="the user, by id or e-mail address")
    json_flag(parser, "the user, with the link, as JSON")


def _user_rm(parser: Parser) -> None:
    parser.add_argument("user", metavar="USER", help="the user, by id or e-mail address")
    json_flag(parser, "what was done as JSON")


def _limits(parser: Parser, what: str) -> None:
    parser.add_argument("--environment", metavar="NAME", help=f"{what} in this environment")
    parser.add_argument("--app", metavar="APP", help=f"{what} for this app")
    parser.add_argument("--expires", metavar="TIME", help="until then: 2026-12-31")


def _user_grant(parser: Parser) -> None:
    add = parser.add_argument
    add("user", metavar="USER", help="the user, by id or e-mail address")
    add(
        "role",
        metavar="ROLE",
        help=f"a role ({', '.join(_ROLES)}), or a permission, e.g. replay:live",
    )
    _limits(parser, "only")
    json_flag(parser, "the grant as JSON")


def _user_revoke(parser: Parser) -> None:
    add = parser.add_argument
    add("user", metavar="USER", help="the user, by id or e-mail address")
    add("grant", metavar="GRANT", help="the grant, as `user ls` shows it in brackets")
    json_flag(parser, "what was done as JSON")


def _key_ls(parser: Parser) -> None:
    table(parser, "the keys")


def _key_add(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="what it is called")
    add("--kind", choices=("agent", "user"), default="agent", help="for an app, or for a program")
    add(
        "--role",
        action="append",
        default=[],
        metavar="ROLE",
        help=f"of the kind user: a role ({', '.join(_ROLES)}) or a permission (repeatable)",
    )
    _limits(parser, "of an agent the one it is for; of a program only")
    json_flag(parser, "the key as JSON")


def _key_rm(parser: Parser) -> None:
    parser.add_argument("id", metavar="KEY", help="the id of the key, never the key itself")
    json_flag(parser, "what was done as JSON")


def _environment_ls(parser: Parser) -> None:
    table(parser, "the environments")


def _environment_set(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="the environment")
    add("kind", choices=("production", "non-production"), help="what it is")
    json_flag(parser, "the environment as JSON")


# Retention


def _retention_show(parser: Parser) -> None:
    json_flag(parser, "the days as JSON")


def _retention_set(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "--exchanges",
        type=number,
        metavar="DAYS",
        help="exchanges with their recordings, and payloads of the audit log; 0 is for ever",
    )
    add(
        "--recordings",
        type=number,
        metavar="DAYS",
        help="recordings of the calls of exchanges; 0 is for ever",
    )
    add("--captures", type=number, metavar="DAYS", help="captures of runs; 0 is for ever")
    json_flag(parser, "the days as JSON")


ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "audit ls": _audit_ls,
    "audit head": _audit_head,
    "audit key": _audit_key,
    "audit export": _audit_export,
    "audit verify": _audit_verify,
    "audit prove": _audit_prove,
    "tenant ls": _tenant_ls,
    "tenant add": _tenant_add,
    "tenant set": _tenant_set,
    "user ls": _user_ls,
    "user add": _user_add,
    "user invite": _user_invite,
    "user rm": _user_rm,
    "user grant": _user_grant,
    "user revoke": _user_revoke,
    "key ls": _key_ls,
    "key add": _key_add,
    "key rm": _key_rm,
    "environment ls": _environment_ls,
    "environment set": _environment_set,
    "retention show": _retention_show,
    "retention set": _retention_set,
}
"""By the name of the command."""
