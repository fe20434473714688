"""Arguments of commands that are a server, or ask one about exchanges and runs."""

from __future__ import annotations

from collections.abc import Callable

from reenact.cli.for_batches import VERDICTS, filters
from reenact.cli.parsing import RECORDING, Parser, json_flag, number, table, times

__all__ = ["ARGUMENTS"]


_LAST = "`last` is the newest one that is no replay"
_EXCHANGE = f"the exchange; {_LAST}"
_REPLAY = "the replay; `last` is the newest one"
_STATES = (
    *("requested", "delivered", "running"),
    *("completed", "failed", "refused", "cancelled", "expired"),
)


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
    add(
        "--database",
        metavar="URL",
        help="postgresql://user@host/name, for several servers at once; otherwise REENACT_DATABASE, "
        "otherwise a file in that folder",
    )
    add(
        "--blobs",
        metavar="PLACE",
        help="where recordings go: a folder or s3://bucket/prefix; otherwise REENACT_BLOBS, "
        "otherwise that folder",
    )
    add(
        "--migrate-only",
        action="store_true",
        help="make the tables of the database, or bring them up to date, and end",
    )
    add(
        "--role",
        default="",
        metavar="ROLE",
        help="with --migrate-only on PostgreSQL: the role of the servers, which may then use the "
        "tables and change none",
    )
    add(
        "--rotate-audit-key",
        action="store_true",
        help="while no server runs: hand the audit logs over to a new signing key, and end",
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
    add(
        "--public-url",
        metavar="URL",
        help="the address under which browsers reach the server, for links; otherwise "
        "REENACT_PUBLIC_URL, otherwise the address that it listens on",
    )
    add(
        "--log",
        choices=("text", "json"),
        default="text",
        help="what the log on stderr is: lines to read, or one JSON object each",
    )
    _single_sign_on(parser)
    _telemetry(parser)
    add(
        "--demo",
        action="store_true",
        help="a server with a small shop in it, to look around; it is gone when it stops",
    )
    json_flag(parser, "errors as JSON")


def _single_sign_on(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "--oidc-issuer",
        metavar="URL",
        help="an OpenID provider with which people can sign in, as it spells itself",
    )
    add("--oidc-client-id", metavar="ID", help="who this server is to the provider")
    add(
        "--oidc-client-secret-file",
        metavar="FILE",
        help="the file with the secret that proves it; none for a public client",
    )
    add(
        "--oidc-tenant",
        metavar="TENANT",
        help="the only tenant, by name or id, whose accounts the provider may open",
    )


def _telemetry(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "--otlp-endpoint",
        action="append",
        default=[],
        metavar="[TENANT=]URL",
        help="send exchanges there as traces, over OTLP/HTTP; a tenant by name or id (repeatable: "
        "one per tenant)",
    )
    add(
        "--otlp-headers-file",
        action="append",
        default=[],
        metavar="[TENANT=]FILE",
        help="headers to send along, one per line, such as Authorization: … (repeatable)",
    )


def _login(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "url",
        nargs="?",
        metavar="URL",
        help="the server, or the link for the first account or an invitation",
    )
    add("--email", metavar="EMAIL", help="who you are, otherwise you are asked")
    add("--tenant", metavar="TENANT", help="which tenant, by name or id, for people in several")
    add("--password-stdin", action="store_true", help="read the password from standard input")
    add("--name", default="command line", metavar="NAME", help="what the key is called")
    json_flag(parser, "who is signed in as JSON")


def _logout(parser: Parser) -> None:
    json_flag(parser, "what was done as JSON")


# Exchanges


def _exchange_ls(parser: Parser) -> None:
    add = parser.add_argument
    add("text", nargs="?", metavar="TEXT", help="only with this in an id, route or error")
    filters(parser)
    add("--save", metavar="NAME", help="save this search, to be replayed: reenact batch plan")
    table(parser, "the exchanges")


def _exchange_show(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help=_EXCHANGE)
    add("--calls", action="store_true", help="show the calls that it made, too")
    _width(parser)
    json_flag(parser, "the exchange as JSON")


def _exchange_replay(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="ID", help=_EXCHANGE)
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
    add(
        "--environment-variables",
        choices=("current", "recorded"),
        default="current",
        help="read the current values of the app, or the recorded values",
    )
    add("--strict", action="store_true", help="end it at the first divergence")
    add(
        "--revision",
        choices=("current", "same"),
        default="current",
        help="through the route as it is now, or only if it is as it was",
    )
    add("--reason", metavar="TEXT", help="why; required in production and for live calls")
    add("--no-wait", action="store_true", help="only ask for it, and print the id of the replay")
    _width(parser)
    json_flag(parser, "the comparison as JSON")


def _exchange_replays(parser: Parser) -> None:
    add = parser.add_argument
    add("id", nargs="?", metavar="ID", help=f"only those of this exchange; {_LAST}")
    add("--app", metavar="APP", help="only in this app")
    add("--environment", metavar="NAME", help="only in this environment")
    add("--route", metavar="ROUTE", help="only through this route")
    add("--state", choices=_STATES, help="only those that are so far")
    add("--verdict", choices=VERDICTS, help="only those with this verdict")
    add("--by", metavar="WHO", help="only those that this person or key asked for")
    times(parser)
    table(parser, "the replays")


def _exchange_diff(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "one",
        metavar="A",
        help="an exchange, or `last`; without B a replay or its exchange, and `last` is the newest replay",
    )
    add("other", nargs="?", metavar="B", help="the exchange to compare with it; else its source")
    _width(parser)
    json_flag(parser, "the comparison as JSON")


def _exchange_cancel(parser: Parser) -> None:
    parser.add_argument("id", metavar="REPLAY", help=_REPLAY)
    json_flag(parser, "the replay as JSON")


def _exchange_learn(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help=_EXCHANGE)
    parser.add_argument("--reason", metavar="TEXT", help="why; required in production")
    json_flag(parser, "the rules as JSON")


def _exchange_prove(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="REPLAY", help=_REPLAY)
    add("-o", "--output", metavar="FILE", required=True, help="the file to write, or - for stdout")
    json_flag(parser, "what was written as JSON")


def _agents(parser: Parser) -> None:
    add = parser.add_argument
    add("--app", metavar="APP", help="only this app")
    add("--environment", metavar="NAME", help="only this environment")
    add("--state", choices=("online", "offline", "gone"), help="only those that are there, or not")
    add("--all", action="store_true", help="also those that were not heard for a day")
    table(parser, "the agents")


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
    "exchange replays": _exchange_replays,
    "exchange diff": _exchange_diff,
    "exchange cancel": _exchange_cancel,
    "exchange learn": _exchange_learn,
    "exchange prove": _exchange_prove,
    "agents": _agents,
    "push": _push,
    "pull": _pull,
}
"""By the name of the command."""
