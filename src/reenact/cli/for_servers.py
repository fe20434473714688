"""Arguments of commands that are a server, or ask one."""

from __future__ import annotations

from collections.abc import Callable

from reenact.cli.parsing import RECORDING, Parser, json_flag, number, positive

__all__ = ["ARGUMENTS"]

_MOMENT = "2026-11-01, 2026-11-01T09:30, 2h (ago), yesterday"


def _table(parser: Parser, what: str) -> None:
    parser.add_argument(
        "--limit", type=positive, default=50, metavar="N", help="at most so many (default: 50)"
    )
    json_flag(parser, f"{what} as JSON, one line each")


def _times(parser: Parser) -> None:
    parser.add_argument("--since", metavar="TIME", help=_MOMENT)
    parser.add_argument("--until", metavar="TIME", help="the same; a day is included")


def _width(parser: Parser) -> None:
    parser.add_argument(
        "--width", type=number, metavar="N", help="width of the lines, 0 for whole ones"
    )


# The server, and who asks it


def _serve(parser: Parser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", metavar="HOST", help="the address to listen on")
    add(
        "--port",
        type=number,
        default=8321,
        metavar="PORT",
        help="the port, 0 for any that is free (default: 8321)",
    )
    add(
        "--data", default="reenact-server", metavar="DIR", help="the folder for everything it keeps"
    )
    add("--name", default="", metavar="NAME", help="the name of this deployment in its audit logs")
    add(
        "--insecure",
        action="store_true",
        help="let other machines connect over plain HTTP: everybody on the way can read along",
    )
    add(
        "--forwarded",
        action="store_true",
        help="believe a proxy on this machine about where requests come from",
    )
    json_flag(parser, "errors as JSON")


def _login(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "url",
        nargs="?",
        metavar="URL",
        help="the server, or the link for the first account or an invitation",
    )
    add("--email", metavar="EMAIL", help="who you are, otherwise you are asked")
    add("--tenant", metavar="NAME", help="which tenant, for people in several")
    add("--password-stdin", action="store_true", help="read the password from standard input")
    add("--name", default="command line", metavar="NAME", help="what the key is called")
    json_flag(parser, "who is signed in as JSON")


def _logout(parser: Parser) -> None:
    json_flag(parser, "what was done as JSON")


# Exchanges


def _exchange_ls(parser: Parser) -> None:
    add = parser.add_argument
    add("text", nargs="?", metavar="TEXT", help="only with this in an id, route or error")
    add("--app", metavar="APP", help="only this app")
    add("--environment", metavar="NAME", help="only this environment")
    add("--route", metavar="ROUTE", help="only this route")
    add("--status", choices=("completed", "failed"), help="only those that ended so")
    add("--replays", choices=("only", "none"), help="only replays, or none")
    add("--replayable", action="store_true", help="only those that can be replayed")
    add("--trace", metavar="ID", help="only this trace")
    add("--correlation", metavar="ID", help="only this correlation id")
    _times(parser)
    _table(parser, "the exchanges")


def _exchange_show(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="the exchange")
    add("--calls", action="store_true", help="show the calls that it made, too")
    _width(parser)
    json_flag(parser, "the exchange as JSON")


def _exchange_replay(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="the exchange")
    add(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change the start payload: body.amount=5, headers.x-user=ann (repeatable)",
    )
    add("--patch", metavar="FILE", help="a JSON patch (RFC 6902) of it; - is stdin")
    add(
        "--payload",
        metavar="FILE",
        help="headers, body, properties as JSON, each in place of the recorded one; - is stdin",
    )
    add("--agent", metavar="ID", help="the agent that replays it")
    add("--environment", metavar="NAME", help="any agent of the app in this environment")
    add(
        "--boundaries",
        choices=("recorded", "recorded_then_live", "live"),
        default="recorded",
        help="where the answers of outbound calls come from",
    )
    add("--strict", action="store_true", help="end it at the first divergence")
    add(
        "--revision",
        choices=("current", "same"),
        default="current",
        help="through the route as it is now, or only if it is as it was",
    )
    add("--reason", metavar="TEXT", help="why; in production you must say it")
    add("--no-wait", action="store_true", help="only ask for it, and print the id of the replay")
    _width(parser)
    json_flag(parser, "the comparison as JSON")


def _exchange_diff(parser: Parser) -> None:
    add = parser.add_argument
    add("one", metavar="A", help="an exchange; without B a replay, or the exchange of one")
    add("other", nargs="?", metavar="B", help="the exchange to compare with it; else its source")
    _width(parser)
    json_flag(parser, "the comparison as JSON")


def _exchange_cancel(parser: Parser) -> None:
    parser.add_argument("id", metavar="REPLAY", help="the replay")
    json_flag(parser, "the replay as JSON")


def _exchange_learn(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the exchange")
    parser.add_argument("--reason", metavar="TEXT", help="why; in production you must say it")
    json_flag(parser, "the rules as JSON")


def _exchange_prove(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="REPLAY", help="the replay")
    add("-o", "--output", metavar="FILE", required=True, help="the file to write, or - for stdout")
    json_flag(parser, "what was written as JSON")


def _agents(parser: Parser) -> None:
    add = parser.add_argument
    add("--app", metavar="APP", help="only this app")
    add("--environment", metavar="NAME", help="only this environment")
    add("--state", choices=("online", "offline"), help="only those that are there, or not")
    _table(parser, "the agents")


# Audit


def _audit_ls(parser: Parser) -> None:
    add = parser.add_argument
    add("--actor", metavar="ID", help="only what this user, key or agent did")
    add("--action", metavar="NAME", help="only this action, e.g. replay.requested")
    add("--exchange", metavar="ID", help="only about this exchange")
    add("--replay", metavar="ID", help="only about this replay")
    add("--environment", metavar="NAME", help="only in this environment")
    add("--outcome", metavar="NAME", help="only what ended so, e.g. denied")
    _times(parser)
    _table(parser, "the records")


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


def _tenant_ls(parser: Parser) -> None:
    _table(parser, "the tenants")


def _tenant_add(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="what it is called")
    add("--admin", metavar="EMAIL", required=True, help="its first administrator")
    add("--tier", choices=_TIERS, default="low", help="what it has paid for")
    add("--dedicated", action="store_true", help="it has machines of its own")
    json_flag(parser, "the tenant as JSON")


def _tenant_set(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="TENANT", help="the tenant")
    add("--tier", choices=_TIERS, help="what it has paid for")
    add("--dedicated", choices=("yes", "no"), help="has it machines of its own?")
    json_flag(parser, "the tenant as JSON")


def _user_ls(parser: Parser) -> None:
    _table(parser, "the users")


def _user_add(parser: Parser) -> None:
    add = parser.add_argument
    add("email", metavar="EMAIL", help="who")
    add(
        "--role",
        action="append",
        default=[],
        metavar="ROLE",
        help="a role, or a permission, everywhere (repeatable)",
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
    add("role", metavar="ROLE", help="viewer, replayer, …, or a permission, e.g. replay:live")
    _limits(parser, "only")
    json_flag(parser, "the grant as JSON")


def _user_revoke(parser: Parser) -> None:
    add = parser.add_argument
    add("user", metavar="USER", help="the user, by id or e-mail address")
    add("grant", metavar="GRANT", help="the grant, as `user ls` shows it in brackets")
    json_flag(parser, "what was done as JSON")


def _key_ls(parser: Parser) -> None:
    _table(parser, "the keys")


def _key_add(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="what it is called")
    add("--kind", choices=("agent", "user"), default="agent", help="for an app, or for a program")
    add(
        "--role",
        action="append",
        default=[],
        metavar="ROLE",
        help="of the kind user: a role, or a permission (repeatable)",
    )
    _limits(parser, "of an agent the one it is for; of a program only")
    json_flag(parser, "the key as JSON")


def _key_rm(parser: Parser) -> None:
    parser.add_argument("id", metavar="KEY", help="the id of the key, never the key itself")
    json_flag(parser, "what was done as JSON")


def _environment_ls(parser: Parser) -> None:
    _table(parser, "the environments")


def _environment_set(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="the environment")
    add("kind", choices=("production", "non-production"), help="what it is")
    json_flag(parser, "the environment as JSON")


# Recordings of runs


def _push(parser: Parser) -> None:
    parser.add_argument("path", metavar="RUN", help=RECORDING)
    json_flag(parser, "the capture as JSON")


def _pull(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help="the capture")
    add("-o", "--output", metavar="DIR", help="where to, otherwise a folder with the id as name")
    json_flag(parser, "what was done as JSON")


ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "serve": _serve,
    "login": _login,
    "logout": _logout,
    "exchange ls": _exchange_ls,
    "exchange show": _exchange_show,
    "exchange replay": _exchange_replay,
    "exchange diff": _exchange_diff,
    "exchange cancel": _exchange_cancel,
    "exchange learn": _exchange_learn,
    "exchange prove": _exchange_prove,
    "agents": _agents,
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
    "push": _push,
    "pull": _pull,
}
"""By the name of the command."""
