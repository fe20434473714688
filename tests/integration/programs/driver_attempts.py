"""Every public way to write through a driver, each tried in an empty replay on a warm connection.

``driver_attempts.py DRIVER RECORDING RESULTS ADDRESS…`` writes one entry per attempt: what it raised,
the report of its session, and how many bytes left through the TCP connections of this process. Every
attempt writes its own name, so that a witness in another process can tell which of them got out. One
of them, ``control``, is made outside any session and must get out.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import socket
import stat
import struct
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import reenact
from reenact import Session

RECORDING = sys.argv[2]
found: dict[str, dict[str, Any]] = {}


def sent() -> int:
    """Return how many bytes were sent on all TCP connections, including those of C libraries."""
    total = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
        except OSError:
            continue  # that of the folder itself
        with socket.socket(fileno=os.dup(int(name))) as one:
            if one.type == socket.SOCK_STREAM and one.family == socket.AF_INET:
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                total += struct.unpack_from("=Q", info, 200)[0]
    return total


def _session() -> Session:
    return reenact.session(capture=RECORDING, mode="replay", strict=True, warn=lambda text: None)


@contextlib.contextmanager
def attempt(name: str) -> Iterator[None]:
    """Do the block in a strict replay, whose program swallows everything."""
    before, session, said = sent(), _session(), "nothing"
    try:
        with session:
            try:
                yield
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
    except reenact.DivergenceError as error:
        ended = str(error)
    else:
        ended = ""
    report = session.report()
    found[name] = {
        "raised": " ".join(said.split()),
        "ended": " ".join(ended.split()),
        "status": report.status,
        "live": report.live,
        "bytes": sent() - before,
    }


def psycopg(address: str) -> None:
    psycopg: Any = import_module("psycopg")

    def warm() -> Any:
        made = psycopg.connect(address, autocommit=True)
        made.execute("SELECT 1")
        return made

    def insert(name: str) -> str:
        return f"INSERT INTO leak VALUES ('{name}')"

    warm().execute(insert("control"))
    made = warm()
    with attempt("execute"):
        made.execute(insert("execute"))
    with attempt("cursor"):
        made.cursor().execute("INSERT INTO leak VALUES (%s)", ["cursor"])
    with attempt("executemany"):
        made.cursor().executemany("INSERT INTO leak VALUES (%s)", [["executemany"]])
    with attempt("copy"), made.cursor().copy("COPY leak FROM STDIN") as copy:
        copy.write_row(["copy"])
    with attempt("pipeline"), made.pipeline():
        made.execute(insert("pipeline"))
    with attempt("stream"):
        list(made.cursor().stream(f"{insert('stream')} RETURNING name"))
    with attempt("named_cursor"), made.cursor("named") as named:
        named.execute("SELECT 1")
    with attempt("transaction"), made.transaction():
        made.execute(insert("transaction"))
    with attempt("client_cursor"):
        psycopg.ClientCursor(made).execute(insert("client_cursor"))
    with attempt("pgconn"):
        made.pgconn.exec_(insert("pgconn").encode())
    cursor, raw = made.cursor(), made.pgconn
    cursor.execute("SELECT 1")
    with attempt("cursor_made_before"):
        cursor.execute(insert("cursor_made_before"))
    with attempt("pgconn_taken_before"):
        raw.exec_(insert("pgconn_taken_before").encode())
    cancel = made.pgconn.get_cancel()
    with attempt("cancel_made_before"):
        cancel.cancel()
    waiting = psycopg.connect(address)
    waiting.execute(insert("commit"))
    with attempt("commit"):
        waiting.commit()
    with attempt("connect"):
        psycopg.connect(address, autocommit=True).execute(insert("connect"))
    with attempt("connect_async"):

        async def connect() -> None:
            one = await psycopg.AsyncConnection.connect(address, autocommit=True)
            await one.execute(insert("connect_async"))

        asyncio.run(connect())

    async def tasks() -> None:
        one = await psycopg.AsyncConnection.connect(address, autocommit=True)
        await one.execute("SELECT 1")
        with attempt("async_execute"):
            await one.execute(insert("async_execute"))
        with attempt("async_copy"):
            async with one.cursor().copy("COPY leak FROM STDIN") as copy:
                await copy.write_row(["async_copy"])

    asyncio.run(tasks())
    made.execute("SELECT 1")  # the connection is as good as before


def psycopg2(address: str) -> None:
    psycopg2: Any = import_module("psycopg2")
    import_module("psycopg2.extras")

    made = psycopg2.connect(address)
    made.autocommit = True
    cursor = made.cursor()

    def insert(name: str) -> str:
        return f"INSERT INTO leak VALUES ('{name}')"

    cursor.execute(insert("control"))
    values = "INSERT INTO leak VALUES %s"
    one = "INSERT INTO leak VALUES (%s)"
    with attempt("execute"):
        made.cursor().execute(insert("execute"))
    with attempt("cursor_made_before"):
        cursor.execute(insert("cursor_made_before"))
    with attempt("executemany"):
        cursor.executemany(one, [["executemany"]])
    with attempt("execute_values"):
        psycopg2.extras.execute_values(cursor, values, [["execute_values"]])
    with attempt("execute_batch"):
        psycopg2.extras.execute_batch(cursor, one, [["execute_batch"]])
    with attempt("copy_from"):
        cursor.copy_from(io.StringIO("copy_from\n"), "leak")
    with attempt("copy_expert"):
        cursor.copy_expert("COPY leak FROM STDIN", io.StringIO("copy_expert\n"))
    with attempt("callproc"):
        cursor.callproc("now")
    with attempt("with_connection"), made, made.cursor() as inner:
        inner.execute(insert("with_connection"))
    with attempt("dictionary_cursor"):
        made.cursor(cursor_factory=psycopg2.extras.DictCursor).execute(insert("dictionary_cursor"))
    with attempt("large_object"):
        made.lobject(0, "w")
    with attempt("reset"):
        made.reset()
    with attempt("unbound"):
        psycopg2.extensions.cursor.execute(cursor, insert("unbound"))
    waiting = psycopg2.connect(address)
    waiting.cursor().execute(insert("commit"))
    with attempt("commit"):
        waiting.commit()
    other = psycopg2.connect(address)
    other.cursor().execute(insert("leaving_with"))
    with attempt("leaving_with"):
        other.__exit__(None, None, None)
    with attempt("connect_for_replication"):
        psycopg2.extras.LogicalReplicationConnection(address)
    with attempt("connect"):
        late = psycopg2.connect(address)
        late.autocommit = True
        late.cursor().execute(insert("connect"))
    made.cursor().execute("SELECT 1")


def asyncpg(address: str) -> None:
    asyncpg: Any = import_module("asyncpg")

    def insert(name: str) -> str:
        return f"INSERT INTO leak VALUES ('{name}')"

    async def tasks() -> None:
        pool = await asyncpg.create_pool(address, min_size=1, max_size=1)
        made = await asyncpg.connect(address)
        await made.execute(insert("control"))
        statement = await made.prepare(insert("statement_made_before"))
        with attempt("execute"):
            await made.execute(insert("execute"))
        with attempt("fetch"):
            await made.fetch("INSERT INTO leak VALUES ($1) RETURNING name", "fetch")
        with attempt("executemany"):
            await made.executemany("INSERT INTO leak VALUES ($1)", [["executemany"]])
        with attempt("copy_records"):
            await made.copy_records_to_table("leak", records=[["copy_records"]])
        with attempt("copy"):
            await made.copy_to_table("leak", source=io.BytesIO(b"copy\n"))
        with attempt("prepare"):
            await (await made.prepare(insert("prepare"))).fetch()
        with attempt("statement_made_before"):
            await statement.fetch()
        with attempt("transaction"):
            async with made.transaction():
                await made.execute(insert("transaction"))
        with attempt("pool"):
            await pool.execute(insert("pool"))
        with attempt("listen"):
            await made.add_listener("channel", lambda *args: None)
        with attempt("connect"):
            await (await asyncpg.connect(address)).execute(insert("connect"))
        await made.execute("SELECT 1")
        # The pool has one connection, which the replay must have given back.
        await asyncio.wait_for(pool.execute("SELECT 1"), 60)
        await pool.close()
        await made.close()

    asyncio.run(tasks())


def redis(port: str, module: str) -> None:
    """redis, or valkey, which has the same methods."""
    redis: Any = import_module(module)
    import_module(f"{module}.asyncio")
    Redis = getattr(redis, module.capitalize())

    made = Redis(port=int(port))
    made.set("control", 1)
    listener = Redis(port=int(port)).pubsub()
    listener.subscribe("one")
    with attempt("set"):
        made.set("set", 1)
    with attempt("incr"):
        made.incr("incr")
    with attempt("execute_command"):
        made.execute_command("SET", "execute_command", 1)
    with attempt("pipeline"):
        made.pipeline().set("pipeline", 1).execute()
    with attempt("transaction"):
        made.transaction(lambda pipe: pipe.multi() or pipe.set("transaction", 1), "watched")
    with attempt("script"):
        made.eval("redis.call('set', 'script', '1')", 0)
    with attempt("publish"):
        made.publish("one", "two")
    with attempt("subscribe"):
        listener.subscribe("two")
    with attempt("connect"):
        Redis(port=int(port)).set("connect", 1)
    made.get("control")
    blocking = Redis(connection_pool=redis.BlockingConnectionPool(1, port=int(port)))
    blocking.get("control")
    with attempt("blocking_pool"):
        blocking.set("blocking_pool", 1)
    blocking.get("control")

    async def tasks() -> None:
        one = getattr(redis.asyncio, module.capitalize())(port=int(port))
        await one.get("control")
        with attempt("async_set"):
            await one.set("async_set", 1)
        with attempt("async_pipeline"):
            await one.pipeline().set("async_pipeline", 1).execute()
        await one.get("control")
        await one.aclose()

    asyncio.run(tasks())


def sqlite3(path: str) -> None:
    sqlite3: Any = import_module("sqlite3")

    def warm() -> Any:
        return sqlite3.connect(path, isolation_level=None)

    def insert(name: str) -> str:
        return f"INSERT INTO leak VALUES ('{name}')"

    made = warm()
    made.execute(insert("control"))
    cursor = made.cursor()
    with attempt("execute"):
        made.execute(insert("execute"))
    with attempt("cursor"):
        made.cursor().execute(insert("cursor"))
    with attempt("cursor_made_before"):
        cursor.execute(insert("cursor_made_before"))
    again = "INSERT INTO leak VALUES (?)"
    made.execute(again, ["control"])
    with attempt("cached_statement"):
        made.execute(again, ["cached_statement"])
    with attempt("executemany"):
        made.executemany(again, [["executemany"]])
    with attempt("cursor_executemany"):
        cursor.executemany(again, [["cursor_executemany"]])
    with attempt("executescript"):
        made.executescript(insert("executescript"))
    with attempt("cursor_executescript"):
        cursor.executescript(insert("cursor_executescript"))
    with attempt("with_connection"), made:
        made.execute(insert("with_connection"))
    with attempt("backup_into"):
        memory = sqlite3.connect(":memory:")
        memory.execute("CREATE TABLE leak (name TEXT)")
        memory.execute(insert("backup_into"))
        memory.commit()
        memory.backup(made)
    with attempt("backup_from"):
        made.backup(sqlite3.connect(":memory:"))
    with attempt("made_cursor"):
        sqlite3.Cursor(made).execute(insert("made_cursor"))
    with attempt("unbound"):
        sqlite3.Cursor.execute(made.cursor(), insert("unbound"))
    with attempt("blob"):
        made.blobopen("leak", "name", 1)
    with attempt("dump"):
        list(made.iterdump())
    with attempt("attach"):
        memory = sqlite3.connect(":memory:", isolation_level=None)
        memory.execute(f"ATTACH '{path}' AS other")
        memory.execute("INSERT INTO other.leak VALUES ('attach')")
    with attempt("vacuum_into"):
        sqlite3.connect(":memory:").execute("VACUUM INTO ?", [f"{path}.copy"])
    waiting = sqlite3.connect(path)
    waiting.execute(insert("commit"))
    with attempt("commit"):
        waiting.commit()
    with attempt("isolation_level"):
        waiting.isolation_level = None
    assert waiting.isolation_level == ""
    with attempt("leaving_with"):
        waiting.__exit__(None, None, None)
    waiting.rollback()
    with attempt("connect"):
        sqlite3.connect(path, isolation_level=None).execute(insert("connect"))
    with attempt("connect_by_class"):
        sqlite3.Connection(path, isolation_level=None).execute(insert("connect_by_class"))
    with attempt("connect_by_uri"):
        uri = f"file:{path}?mode=rw"
        sqlite3.connect(uri, uri=True, isolation_level=None).execute(insert("connect_by_uri"))
    made.execute("SELECT 1")


def mysql(port: str, module: str, *options: str) -> None:
    """A driver for MySQL with the methods of the DB-API. ``options`` are named arguments."""
    driver: Any = import_module(module)
    more = {name: json.loads(value) for name, _, value in (one.partition("=") for one in options)}

    def connect() -> Any:
        where = {"host": "127.0.0.1", "port": int(port), "user": "root", "database": "app"}
        return driver.connect(**where, **more)

    def insert(name: str) -> str:
        return f"INSERT INTO leak VALUES ('{name}')"

    made = connect()
    cursor = made.cursor()
    cursor.execute(insert("control"))
    made.commit()
    with attempt("execute"):
        cursor.execute(insert("execute"))
    with attempt("executemany"):
        cursor.executemany("INSERT INTO leak VALUES (%s)", [["executemany"]])
    with attempt("cursor_made_inside"):
        made.cursor().execute(insert("cursor_made_inside"))
    with attempt("ping"):
        made.ping()
    waiting = connect()
    waiting.cursor().execute(insert("commit"))
    with attempt("commit"):
        waiting.commit()
    with attempt("connect"):
        connect()
    if module == "mysql.connector":
        prepared = made.cursor(prepared=True)
        prepared.execute("SELECT ?", ["prepared"])
        prepared.fetchall()
        with attempt("prepared"):
            prepared.execute("INSERT INTO leak VALUES (?)", ["prepared"])
    made.commit()
    made.cursor().execute("SELECT 1")


def mysql_of_tasks(port: str, module: str) -> None:
    """A driver for MySQL on asyncio."""
    driver: Any = import_module(module)

    def insert(name: str) -> str:
        return f"INSERT INTO leak VALUES ('{name}')"

    async def execute(made: Any, text: str) -> None:
        async with made.cursor() as cursor:
            await cursor.execute(text)

    async def tasks() -> None:
        where = {"host": "127.0.0.1", "port": int(port), "user": "root", "db": "app"}
        made = await driver.connect(**where, autocommit=True)
        pool = await driver.create_pool(**where, minsize=1, maxsize=1, autocommit=True)
        await execute(made, insert("control"))
        with attempt("execute"):
            await execute(made, insert("execute"))
        with attempt("executemany"):
            async with made.cursor() as cursor:
                await cursor.executemany("INSERT INTO leak VALUES (%s)", [["executemany"]])
        with attempt("ping"):
            await made.ping(reconnect=False)
        with attempt("pool"):
            async with pool.acquire() as borrowed:
                await execute(borrowed, insert("pool"))
        waiting = await driver.connect(**where)
        await execute(waiting, insert("commit"))
        with attempt("commit"):
            await waiting.commit()
        with attempt("connect"):
            await driver.connect(**where)
        await execute(made, "SELECT 1")
        async with pool.acquire() as borrowed:
            await execute(borrowed, "SELECT 1")
        pool.close()
        await pool.wait_closed()
        for one in (made, waiting):
            one.close()

    asyncio.run(tasks())


def pymongo(port: str) -> None:
    pymongo: Any = import_module("pymongo")

    address = f"mongodb://127.0.0.1:{port}"
    leak = pymongo.MongoClient(address).app.leak
    leak.insert_one({"name": "control"})
    with attempt("insert_one"):
        leak.insert_one({"name": "insert_one"})
    with attempt("bulk_write"):
        leak.bulk_write([pymongo.InsertOne({"name": "bulk_write"})])
    with attempt("unacknowledged"):
        unacknowledged = leak.with_options(write_concern=pymongo.WriteConcern(w=0))
        unacknowledged.insert_one({"name": "unacknowledged"})
    with attempt("find"):
        list(leak.find({"name": "find"}))
    with attempt("connect"):
        late = pymongo.MongoClient(address, serverSelectionTimeoutMS=1)
        late.app.leak.insert_one({"name": "connect"})

    async def tasks() -> None:
        made = pymongo.AsyncMongoClient(address)
        await made.app.leak.insert_one({"name": "control"})
        with attempt("async_insert_one"):
            await made.app.leak.insert_one({"name": "async_insert_one"})
        with attempt("async_find"):
            await made.app.leak.find({"name": "async_find"}).to_list()
        await made.app.leak.insert_one({"name": "control"})
        await made.close()

    asyncio.run(tasks())
    leak.insert_one({"name": "control"})


def grpc(port: str) -> None:
    grpc: Any = import_module("grpc")

    address = f"127.0.0.1:{port}"
    channel = grpc.insecure_channel(address)
    unary = channel.unary_unary("/leak.Leak/Write")
    stream = channel.stream_unary("/leak.Leak/WriteMany")
    unary(b"control")
    with attempt("unary"):
        unary(b"unary")
    with attempt("made_inside"):
        channel.unary_unary("/leak.Leak/Write")(b"made_inside")
    with attempt("with_call"):
        unary.with_call(b"with_call")
    with attempt("future"):
        unary.future(b"future").result()
    with attempt("stream"):
        stream(iter([b"stream"]))
    with attempt("connect"):
        grpc.insecure_channel(address).unary_unary("/leak.Leak/Write")(b"connect")

    with attempt("connect_and_wait"):
        grpc.channel_ready_future(grpc.insecure_channel(address)).result()

    async def tasks() -> None:
        with attempt("connect_and_wait_async"):
            await grpc.aio.insecure_channel(address).channel_ready()
        async with grpc.aio.insecure_channel(address) as one:
            write = one.unary_unary("/leak.Leak/Write")
            await write(b"control")
            with attempt("async_unary"):
                await write(b"async_unary")
            with attempt("async_stream"):
                await one.stream_unary("/leak.Leak/WriteMany")(iter([b"async_stream"]))
            await write(b"control")

    asyncio.run(tasks())
    unary(b"control")


def live(address: str, rounds: str) -> None:
    """Threads from before use warm connections while one replay after the other is open."""
    psycopg, psycopg2, asyncpg = map(import_module, ("psycopg", "psycopg2", "asyncpg"))
    insert, count = "INSERT INTO leak VALUES ('live')", int(rounds)

    def with_psycopg() -> None:
        with psycopg.connect(address, autocommit=True) as made:
            begin.wait()
            for _ in range(count):
                made.execute(insert)

    def with_psycopg2() -> None:
        made = psycopg2.connect(address)
        begin.wait()
        for _ in range(count):
            with made, made.cursor() as cursor:
                cursor.execute(insert)
        made.close()

    def with_asyncpg() -> None:
        async def tasks() -> None:
            pool = await asyncpg.create_pool(address, min_size=1, max_size=1)
            await asyncio.to_thread(begin.wait)
            for _ in range(count):
                await pool.execute(insert)
            await pool.close()

        asyncio.run(tasks())

    targets = (with_psycopg, with_psycopg2, with_asyncpg)
    begin = threading.Barrier(len(targets) + 1)
    threads = [threading.Thread(target=one) for one in targets]
    for thread in threads:
        thread.start()
    begin.wait()
    for number in range(1_000_000):
        if not any(thread.is_alive() for thread in threads):
            break
        with attempt(str(number)):
            pass


DRIVERS: dict[str, Callable[..., Awaitable[None] | None]] = {
    one.__name__: one
    for one in (
        psycopg,
        psycopg2,
        asyncpg,
        redis,
        sqlite3,
        mysql,
        mysql_of_tasks,
        pymongo,
        grpc,
        live,
    )
}

if __name__ == "__main__":
    DRIVERS[sys.argv[1]](*sys.argv[4:])
    Path(sys.argv[3]).write_text(json.dumps(found), encoding="utf-8")
