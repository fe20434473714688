"""An app that takes orders, run as a program: it has a pool, a queue and a file open before the first.

The order names what is to be done: ``sqlite``, ``postgres``, ``redis``, ``file`` or ``worker``.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import sqlite3
import threading
from contextlib import asynccontextmanager
from typing import Any

import httpx
import psycopg_pool
import redis
import uvicorn
from fastapi import FastAPI

from reenact.exchange import Agent

SETTINGS: dict[str, Any] = json.loads(os.environ["ORDERING"])


def make_app(agent: Agent) -> FastAPI:
    pool = psycopg_pool.ConnectionPool(SETTINGS["postgres"], min_size=1, max_size=1, open=True)
    pool.wait()
    cache = redis.Redis(port=SETTINGS["redis"])
    cache.ping()
    database = sqlite3.connect(SETTINGS["sqlite"], check_same_thread=False)
    jobs: queue.Queue[tuple[str, queue.Queue[str]] | None] = queue.Queue()
    count = 0

    def work() -> None:
        while (job := jobs.get()) is not None:
            url, reply = job
            try:
                answer = httpx.get(url, trust_env=False).text
            except Exception as error:
                answer = type(error).__name__
            reply.put(answer)

    worker = threading.Thread(target=work)
    worker.start()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        yield
        jobs.put(None)
        worker.join()
        pool.close()
        cache.close()
        database.close()

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders")
    def order(wanted: dict[str, str]) -> dict[str, Any]:
        nonlocal count
        count += 1  # in memory
        if wanted["do"] == "sqlite":
            with database:
                database.execute("INSERT INTO orders VALUES ('one')")
        elif wanted["do"] == "postgres":
            with pool.connection() as connection:
                connection.execute("INSERT INTO orders VALUES ('one')")
        elif wanted["do"] == "redis":
            cache.incr("orders")
        elif wanted["do"] == "file":
            with open(SETTINGS["file"], "a", encoding="utf-8") as file:
                file.write("one\n")
        elif wanted["do"] == "worker":
            reply: queue.Queue[str] = queue.Queue()
            jobs.put((SETTINGS["upstream"], reply))
            return {"worker": reply.get()}
        return {"count": count}

    app.add_middleware(agent.asgi)
    return app


def main() -> None:
    agent = Agent(
        SETTINGS["server"],
        SETTINGS["key"],
        app="shop",
        environment="staging",
        data=SETTINGS["data"],
        **SETTINGS["declared"],
    )
    with agent, socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()  # from here on a client can connect, and waits for the server
        config = uvicorn.Config(make_app(agent), log_level="critical", access_log=False)
        print(sock.getsockname()[1], flush=True)
        uvicorn.Server(config).run([sock])


if __name__ == "__main__":
    main()
