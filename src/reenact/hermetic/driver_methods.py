"""Methods of drivers that send statements or commands, and the description of each call.

One function per driver returns its methods as soon as the program has imported the driver. A method
that a version of the driver does not have is left out. :data:`DRIVER_METHODS` lists the functions by
module.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final, NamedTuple

__all__ = ["DRIVER_METHODS", "DriverMethod", "Statement", "is_memory"]


class Statement(NamedTuple):
    """A call of a driver: ``command`` without literal values; ``target`` is empty if unknown."""

    command: str
    target: str


Describe = Callable[[Any, tuple[Any, ...]], Statement | None]
"""Describe the call of a method with this object and these arguments; None if it stays inside the
program."""


class DriverMethod(NamedTuple):
    """One method of a driver. ``descriptor`` returns the number of the socket behind an object."""

    driver: str
    owner: Any
    name: str
    describe: Describe
    descriptor: Callable[[Any], Any] | None = None
    instead: Any = None
    """Returned in a replay where ``describe`` finds nothing to refuse."""
    names: bool = False
    """Does ``describe`` get the named arguments as a dictionary, after the others?"""
    acts: bool = False
    """Is it a coroutine function whose frames do not tell to which driver they belong?"""


def _methods(
    driver: str,
    owner: Any,
    names: Iterable[str],
    describe: Callable[[str], Describe],
    descriptor: Callable[[Any], Any] | None = None,
) -> list[DriverMethod]:
    """The methods of ``owner`` among ``names`` that this version of the driver has."""
    there = [name for name in names if name in vars(owner)]
    return [DriverMethod(driver, owner, name, describe(name), descriptor) for name in there]


# Commands


_LITERAL: Final = re.compile(r"'(?:[^']|'')*'|\$(\w*)\$.*?\$\1\$|\b\d[\d.]*\b", re.DOTALL)
_LONGEST: Final = 160


def _sql(text: Any) -> str:
    """Return a statement without literal values."""
    if isinstance(text, bytes | bytearray):
        text = bytes(text[: 8 * _LONGEST]).decode("utf-8", "replace")
    if not isinstance(text, str):
        return type(text).__name__ if text is not None else ""
    found = " ".join(_LITERAL.sub("?", text[: 8 * _LONGEST]).split())
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]} …"


def _first(target: Callable[[Any], str]) -> Callable[[str], Describe]:
    """The first argument is the statement."""

    def named(name: str) -> Describe:
        return lambda it, args: Statement(_sql(args[0]) if args else name, target(it))

    return named


def _by_name(target: Callable[[Any], str]) -> Callable[[str], Describe]:
    """The method is the command."""

    def named(name: str) -> Describe:
        return lambda it, args: Statement(name, target(it))

    return named


def _nowhere(it: Any) -> str:
    return ""


def _connects(it: Any, args: tuple[Any, ...]) -> Statement:
    """Connects to a server that the arguments do not name."""
    return Statement("connect", "")


def _stays(it: Any, args: tuple[Any, ...]) -> None:
    """Sends nothing itself."""


# sqlite3

_ATTACHES: Final = re.compile(r"\battach\b|\bvacuum\b.*\binto\b", re.IGNORECASE | re.DOTALL)
_ATTACHES_MEMORY: Final = re.compile(
    r"\s*attach\s+(database\s+)?'(:memory:)?'\s+as\s+\w+\s*;?\s*", re.IGNORECASE
)


def is_memory(database: Any) -> bool:
    """Does ``sqlite3.connect(database)`` open a database that is in memory or temporary?"""
    if isinstance(database, bytes):
        database = database.decode("utf-8", "replace")
    if not isinstance(database, str):
        return False
    path, _, query = database.removeprefix("file:").partition("?")
    if database in ("", ":memory:") or not database.startswith("file:"):
        return database in ("", ":memory:")
    return path == ":memory:" or "mode=memory" in query.split("&")


def _sqlite_methods(module: ModuleType) -> list[DriverMethod]:
    connection, cursor = module.Connection, module.Cursor
    execute, all_rows = vars(cursor)["execute"], vars(cursor)["fetchall"]

    def file_of(it: Any) -> str | None:
        """The first file of a connection's databases; None if there is none. A connection that
        cannot be asked counts as a file."""
        # A subclass may have an own cursor, and a row factory changes what comes back.
        asked = cursor(it)
        asked.row_factory = None
        try:
            rows = all_rows(execute(asked, "PRAGMA database_list"))
        except module.ProgrammingError:
            return None  # closed, or used in a wrong thread: the statement raises the same
        except module.Error:
            return "a database"
        return next((str(row[2]) for row in rows if row[2]), None)

    def statement(it: Any, text: Any) -> Statement | None:
        found = file_of(it)
        if found is None and isinstance(text, str) and _ATTACHES.search(text):
            found = None if _ATTACHES_MEMORY.fullmatch(text) else "a file"
        return None if found is None else Statement(_sql(text), found)

    def by_connection(name: str) -> Describe:
        return lambda it, args: statement(it, args[0] if args else name)

    def by_cursor(name: str) -> Describe:
        def describe(it: Any, args: tuple[Any, ...]) -> Statement | None:
            try:
                owner = it.connection
            except module.ProgrammingError:
                return None  # never initialised: the statement raises the same
            return statement(owner, args[0] if args else name)

        return describe

    def ends(name: str) -> Describe:
        """Ends a transaction. Without one it does nothing, as when a pool cleans up."""

        def describe(it: Any, args: tuple[Any, ...]) -> Statement | None:
            try:
                return statement(it, name.strip("_")) if it.in_transaction else None
            except module.ProgrammingError:
                return None

        return describe

    def sets(name: str) -> Describe:
        """Sets an attribute. None and True end a transaction: other values do nothing to it."""

        def describe(it: Any, args: tuple[Any, ...]) -> Statement | None:
            return None if args[0] not in (None, True) else ends("commit")(it, ())

        return describe

    def copies(name: str) -> Describe:
        def describe(it: Any, args: tuple[Any, ...]) -> Statement | None:
            found = statement(it, name)
            others = [one for one in args if isinstance(one, connection)]
            return statement(others[0], name) if found is None and others else found

        return describe

    def opaque(name: str) -> Describe:
        return lambda it, args: statement(it, name)

    def of_blob(name: str) -> Describe:
        def describe(it: Any, args: tuple[Any, ...]) -> Statement | None:
            # A blob does not tell its connection, but it refers to it.
            owners = [one for one in gc.get_referents(it) if isinstance(one, connection)]
            return (
                statement(owners[0], "blob write") if owners else Statement("blob write", "a file")
            )

        return describe

    found = [
        *_methods(
            "sqlite3", connection, ("execute", "executemany", "executescript"), by_connection
        ),
        *_methods("sqlite3", connection, ("commit", "rollback", "__exit__"), ends),
        *_methods("sqlite3", connection, ("isolation_level", "autocommit"), sets),
        *_methods("sqlite3", connection, ("backup",), copies),
        *_methods("sqlite3", connection, ("blobopen", "deserialize", "serialize"), opaque),
        *_methods("sqlite3", connection, ("iterdump", "load_extension"), opaque),
        *_methods("sqlite3", cursor, ("execute", "executemany", "executescript"), by_cursor),
    ]
    if hasattr(module, "Blob"):
        found += _methods("sqlite3", module.Blob, ("write",), of_blob)
    return found


# psycopg


_PGCONN: Final = (
    "exec_",
    "send_query",
    "exec_params",
    "send_query_params",
    "prepare",
    "send_prepare",
    "exec_prepared",
    "send_query_prepared",
    "describe_prepared",
    "send_describe_prepared",
    "describe_portal",
    "send_describe_portal",
    "close_prepared",
    "send_close_prepared",
    "close_portal",
    "send_close_portal",
    "put_copy_data",
    "put_copy_end",
    "pipeline_sync",
    "send_flush_request",
    "change_password",
    "reset",
    "reset_start",
    "reset_poll",
    "connect",
    "connect_start",
    "ping",
    "get_cancel",
    "cancel_conn",
)


_PGCANCEL: Final = {"PGcancel": ("cancel",), "PGcancelConn": ("start", "blocking", "poll", "reset")}
"""Types of requests that cancel a statement, and their methods that connect."""


def _psycopg_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``psycopg.pq``, which has chosen an implementation in C or in Python."""

    def target(it: Any) -> str:
        if isinstance(it, type) or it.status != module.ConnStatus.OK:
            return ""
        return f"{it.host.decode()}:{it.port.decode()}"

    def describe(name: str) -> Describe:
        def described(it: Any, args: tuple[Any, ...]) -> Statement | None:
            said = args[0] if args and name.endswith(("exec_", "_query", "_params")) else None
            return Statement(_sql(said) if said is not None else name, target(it))

        return described

    cancels: list[DriverMethod] = []
    for kind, names in _PGCANCEL.items():
        owner = getattr(module, kind, None)
        cancels += [] if owner is None else _methods("psycopg", owner, names, _by_name(_nowhere))
    found = _methods(
        "psycopg", module.PGconn, _PGCONN, describe, lambda it: getattr(it, "socket", -1)
    )
    return [*found, *cancels]


# psycopg2


def _psycopg2_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``psycopg2``; its types are written in C."""
    extensions = module.extensions
    connection, cursor = extensions.connection, extensions.cursor

    def target(it: Any) -> str:
        return "" if it.closed else f"{it.info.host}:{it.info.port}"

    def of_cursor(it: Any) -> str:
        return target(it.connection)

    def number(it: Any) -> Any:
        return -1 if it.closed else it.fileno()

    def is_idle(it: Any) -> bool:
        return bool(it.closed) or it.get_transaction_status() == extensions.TRANSACTION_STATUS_IDLE

    def ends(name: str) -> Describe:
        """Ends a transaction. Without one it does nothing, as when a pool cleans up."""
        command = name.strip("_")
        return lambda it, args: None if is_idle(it) else Statement(command, target(it))

    def fetches(name: str) -> Describe:
        """Rows of a named cursor are fetched from the server."""

        def describe(it: Any, args: tuple[Any, ...]) -> Statement | None:
            if it.name is None or it.closed or is_idle(it.connection):
                return None
            return Statement(name, of_cursor(it))

        return describe

    executing = ("execute", "executemany", "callproc")
    copying = ("copy_from", "copy_to", "copy_expert", "nextset")
    two_phases = tuple(
        f"tpc_{name}" for name in ("begin", "prepare", "commit", "rollback", "recover")
    )
    sending = (*two_phases, "set_client_encoding", "lobject", "reset", "cancel")
    large = ("read", "write", "seek", "tell", "truncate", "unlink", "export", "close")
    fetching = ("fetchone", "fetchmany", "fetchall", "scroll", "close")
    replicating = ("start_replication_expert", "read_message", "send_feedback", "consume_stream")
    found = [
        DriverMethod("psycopg2", module, "_connect", _connects),
        *_methods(
            "psycopg2", cursor, executing, _first(of_cursor), lambda it: number(it.connection)
        ),
        *_methods(
            "psycopg2", cursor, copying, _by_name(of_cursor), lambda it: number(it.connection)
        ),
        *_methods("psycopg2", cursor, fetching, fetches, lambda it: number(it.connection)),
        *_methods("psycopg2", connection, sending, _by_name(target), number),
        *_methods("psycopg2", connection, ("commit", "rollback", "__exit__"), ends, number),
        *_methods("psycopg2", connection, ("set_session", "set_isolation_level"), ends, number),
        *_methods("psycopg2", extensions.lobject, large, _by_name(_nowhere)),
    ]
    streaming = getattr(module._psycopg, "ReplicationCursor", None)
    if streaming is not None:
        found += _methods("psycopg2", streaming, replicating, _by_name(of_cursor))
    return found


def _psycopg2_replicating_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``psycopg2.extras``, whose classes for replication connect when they are made."""
    kinds = (module.LogicalReplicationConnection, module.PhysicalReplicationConnection)
    return [DriverMethod("psycopg2", kind, "__init__", _connects) for kind in kinds]


# asyncpg


def _asyncpg_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``asyncpg.connection``."""
    from asyncpg.protocol.protocol import BaseProtocol

    def target(it: Any) -> str:
        # A protocol does not tell its transport, but it refers to it.
        found = [one for one in gc.get_referents(it) if hasattr(one, "get_extra_info")]
        peer = found[0].get_extra_info("peername") if found else ""
        return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "")

    def describe(name: str) -> Describe:
        def described(it: Any, args: tuple[Any, ...]) -> Statement:
            said = next((one for one in args if isinstance(one, str) and " " in one), None)
            if said is None and args:
                said = getattr(args[0], "query", None)
            return Statement(_sql(said) if said else name, target(it))

        return described

    sending = (
        "prepare bind_execute bind_execute_many bind execute close_portal query copy_out copy_in"
    )
    found = _methods("asyncpg", BaseProtocol, (*sending.split(), "close_statement"), describe)
    # A connection that a replay has borrowed from a pool has sent nothing, so there is nothing to
    # reset. Without this its return would be refused, and the pool would lose it.
    reset = DriverMethod("asyncpg", module.Connection, "get_reset_query", _stays, None, "")
    return [*found, reset]


# Redis


def _redis_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``redis.connection``, ``redis.asyncio.connection`` or the same of valkey."""
    driver = module.__name__.partition(".")[0]

    def target(it: Any) -> str:
        host = getattr(it, "host", None)
        return str(getattr(it, "path", "")) if host is None else f"{host}:{getattr(it, 'port', '')}"

    def describe(name: str) -> Describe:
        return lambda it, args: Statement(_command(args[0] if args else b""), target(it))

    return _methods(driver, module.AbstractConnection, ("send_packed_command",), describe)


def _command(packed: Any) -> str:
    """Return the name of the first command in packed form: ``*2\\r\\n$4\\r\\nINCR\\r\\n…``."""
    first = packed
    if not isinstance(packed, bytes | str):
        first = b"".join(bytes(one) for one in list(packed)[:4])
    parts = (first.encode() if isinstance(first, str) else bytes(first[:200])).split(b"\r\n")
    return parts[2].decode("ascii", "replace") if len(parts) > 2 else "a command"


# MySQL


_MYSQL_COMMANDS: Final = {1: "QUIT", 2: "INIT_DB", 9: "STATISTICS", 12: "PROCESS_KILL", 14: "PING"}
_MYSQL_TEXTS: Final = (3, 22)
"""Numbers of the commands of the protocol that contain an SQL statement.

They execute or prepare it. Other commands contain values.
"""


def _mysql_methods(
    driver: str, method: str = "_execute_command"
) -> Callable[..., list[DriverMethod]]:
    """Drivers in Python, whose connections send each command with one method."""

    def make(module: ModuleType) -> list[DriverMethod]:
        owner = getattr(module, "MySQLConnection", None) or module.Connection

        def target(it: Any) -> str:
            found = [getattr(it, name, getattr(it, f"_{name}", "")) for name in ("host", "port")]
            return ":".join(map(str, found))

        def describe(name: str) -> Describe:
            def described(it: Any, args: tuple[Any, ...]) -> Statement:
                command, text = args[0], args[1] if len(args) > 1 else None
                if command in _MYSQL_TEXTS and isinstance(text, bytes | bytearray | str):
                    return Statement(_sql(text), target(it))
                return Statement(_MYSQL_COMMANDS.get(command, f"command {command}"), target(it))

            return described

        return _methods(driver, owner, (method,), describe)

    return make


def _asyncmy_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``asyncmy.connection``. Its coroutines are compiled and have no frames that tell
    which library connects and sends."""
    connects = DriverMethod("asyncmy", module.Connection, "connect", _stays)
    found = [*_mysql_methods("asyncmy")(module), connects]
    return [driver_method._replace(acts=True) for driver_method in found]


_MYSQL_IN_C: Final = (
    "query",
    "send_query",
    "stmt_prepare",
    "commit",
    "rollback",
    "autocommit",
    "change_user",
    "kill",
    "ping",
    "refresh",
    "reset_connection",
    "select_db",
    "set_character_set",
    "set_server_option",
    "shutdown",
    "stat",
    "dump_debug_info",
    "next_result",
)


def _mysql_in_c(driver: str, connection: type) -> list[DriverMethod]:
    """The methods of ``connection``, a type written in C, that send to the server."""

    def target(it: Any) -> str:
        host = str(it.get_host_info()).partition(" ")[0]
        return f"{host}:{it.port}" if hasattr(it, "port") else host

    def number(it: Any) -> Any:
        return it.fileno() if hasattr(it, "fileno") else -1

    def describe(name: str) -> Describe:
        def described(it: Any, args: tuple[Any, ...]) -> Statement | None:
            if name == "next_result" and not it.more_results():
                return None  # nothing to fetch: cursors call it before each statement
            said = args[0] if args and name in ("query", "send_query", "stmt_prepare") else name
            return Statement(_sql(said), target(it))

        return described

    return _methods(driver, connection, _MYSQL_IN_C, describe, number)


def _connects_to(it: Any, args: tuple[Any, ...]) -> Statement:
    """``args`` are the arguments of ``connect``, and last the named ones."""
    named = args[-1]
    host = named.get("host") or (args[0] if len(args) > 1 else "")
    return Statement("connect", f"{host}:{named['port']}" if "port" in named else str(host))


def _mysqlclient_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``MySQLdb._mysql``."""
    connects = DriverMethod("mysqlclient", module, "connect", _connects)
    return [*_mysql_in_c("mysqlclient", module.connection), connects]


def _mysqlclient_connects(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``MySQLdb.connections``, whose class is what ``MySQLdb.connect`` calls."""
    return [DriverMethod("mysqlclient", module.Connection, "__init__", _connects_to, names=True)]


def _mysql_connector_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``_mysql_connector``, the part of mysql-connector that is written in C. Without
    it the driver sends through Python's sockets."""
    return [
        *_mysql_in_c("mysql-connector", module.MySQL),
        DriverMethod("mysql-connector", module.MySQL, "connect", _connects_to, names=True),
        *_methods(
            "mysql-connector",
            module.MySQLPrepStmt,
            ("stmt_execute", "stmt_reset", "stmt_close"),
            _by_name(_nowhere),
        ),
    ]


# MongoDB


def _pymongo_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``pymongo.asynchronous.pool``. Commands are refused at the socket. asyncio connects
    in a task of its own, whose frames do not tell the library."""
    return [DriverMethod("pymongo", module.Pool, "connect", _stays, acts=True)]


# gRPC


def _grpc_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``grpc._cython.cygrpc``."""

    def channel(it: Any) -> str:
        found = it.target() if callable(it.target) else it.target
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)

    def calls(name: str) -> Describe:
        def described(it: Any, args: tuple[Any, ...]) -> Statement:
            said = next((one for one in args if isinstance(one, bytes) and one[:1] == b"/"), b"")
            return Statement(said.decode("utf-8", "replace") or "a call", channel(it))

        return described

    def connects(name: str) -> Describe:
        """``check_connectivity_state(True)`` connects."""
        return lambda it, args: Statement("connect", channel(it)) if args and args[0] else None

    state = ("check_connectivity_state",)
    parts = {
        "Channel": (("integrated_call", "segregated_call"), calls),
        "AioChannel": (("call",), calls),
        "SegregatedCall": (("operate",), _by_name(_nowhere)),
        "IntegratedCall": (("operate",), _by_name(_nowhere)),
        "_AioCall": (("send_serialized_message", "send_receive_close"), _by_name(_nowhere)),
    }
    found: list[DriverMethod] = []
    for name, (methods, describe) in parts.items():
        owner = getattr(module, name, None)
        if owner is not None:
            found += _methods("grpc", owner, methods, describe)
            found += _methods("grpc", owner, state, connects)
    return found


def _grpc_channel_methods(module: ModuleType) -> list[DriverMethod]:
    """``module`` is ``grpc._channel``. A subscriber can request a connection, which a thread opens. The
    request is refused first, because the subscriber would wait for that thread."""

    def subscribes(it: Any, args: tuple[Any, ...]) -> Statement | None:
        if len(args) < 2 or not args[1]:
            return None
        return Statement("connect", it._channel.target().decode("utf-8", "replace"))

    return [DriverMethod("grpc", module.Channel, "subscribe", subscribes)]


DRIVER_METHODS: Final[dict[str, Callable[[ModuleType], list[DriverMethod]]]] = {
    "sqlite3": _sqlite_methods,
    "psycopg.pq": _psycopg_methods,
    "psycopg2": _psycopg2_methods,
    "psycopg2.extras": _psycopg2_replicating_methods,
    "asyncpg.connection": _asyncpg_methods,
    "redis.connection": _redis_methods,
    "redis.asyncio.connection": _redis_methods,
    "valkey.connection": _redis_methods,
    "valkey.asyncio.connection": _redis_methods,
    "pymysql.connections": _mysql_methods("PyMySQL"),
    "aiomysql.connection": _mysql_methods("aiomysql"),
    "asyncmy.connection": _asyncmy_methods,
    "MySQLdb._mysql": _mysqlclient_methods,
    "MySQLdb.connections": _mysqlclient_connects,
    "mysql.connector.connection": _mysql_methods("mysql-connector", "_send_cmd"),
    "mysql.connector.aio.connection": _mysql_methods("mysql-connector", "_send_cmd"),
    "_mysql_connector": _mysql_connector_methods,
    "pymongo.asynchronous.pool": _pymongo_methods,
    "grpc._channel": _grpc_channel_methods,
    "grpc._cython.cygrpc": _grpc_methods,
}
"""Makers of the methods of a driver, by the module whose import they wait for."""
