"""Every way to send on a connection that was open before the replay.

``open_connections.py RECORDING RESULTS TCP TLS UDP UNIX`` writes one entry per attempt. Each sends
``warm`` outside the session, then its own name inside a strict replay that swallows everything, then
``again`` outside. With the folder of uvloop as one more argument, only uvloop is tried.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import reenact

RECORDING, RESULTS = sys.argv[1:3]
TCP, TLS, UDP = map(int, sys.argv[3:6])
UNIX = sys.argv[6]
found: dict[str, dict[str, Any]] = {}
libc = ctypes.CDLL(None)


@contextlib.contextmanager
def attempt(name: str) -> Iterator[reenact.Session]:
    session = reenact.session(capture=RECORDING, mode="replay", strict=True, warn=lambda text: None)
    ended = said = ""
    try:
        with session:
            try:
                yield session
            except BaseException as error:
                said = type(error).__name__
    except reenact.DivergenceError as error:
        ended = " ".join(str(error).split())
    found[name] = {"said": said, "ended": ended, "status": session.report().status}


def tcp() -> socket.socket:
    made = socket.create_connection(("127.0.0.1", TCP))
    made.sendall(b"warm\n")
    return made


def tls() -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    made = context.wrap_socket(socket.create_connection(("127.0.0.1", TLS)))
    made.sendall(b"warm\n")
    return made


def on(name: str, made: Any, send: Callable[[Any, bytes], Any]) -> None:
    with made:
        with attempt(name):
            send(made, f"{name}\n".encode())
        made.sendall(b"again\n") if made.type == socket.SOCK_STREAM else made.send(b"again\n")


def sends_file(made: Any, text: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.flush()
        file.seek(0)
        made.sendfile(file)


def writes(made: Any, text: bytes) -> None:
    with made.makefile("wb") as file:
        file.write(text)


kept: list[Any] = []


def keeps(made: Any, text: bytes) -> None:
    """Leave ``text`` in the buffer of a file."""
    kept.append(made.makefile("wb"))
    kept[-1].write(text)


def keeps_text(made: Any, text: bytes) -> None:
    kept.append(made.makefile("w"))
    print(text.decode().strip(), file=kept[-1])


def writes_to_a_file(made: Any, text: bytes) -> None:
    with open(made.fileno(), "wb", closefd=False) as file:
        file.write(text)


def splices(made: Any, text: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, text)
    os.splice(reading, made.fileno(), len(text))


def sockets() -> None:
    on("send", tcp(), lambda made, text: made.send(text))
    on("sendall", tcp(), lambda made, text: made.sendall(text))
    on("sendmsg", tcp(), lambda made, text: made.sendmsg([text]))
    on("sendfile", tcp(), sends_file)
    on("makefile", tcp(), writes)
    on("os.write", tcp(), lambda made, text: os.write(made.fileno(), text))
    on("os.writev", tcp(), lambda made, text: os.writev(made.fileno(), [text]))
    on("os.splice", tcp(), splices)
    on("file", tcp(), writes_to_a_file)
    on("makefile.kept", tcp(), keeps)
    on("makefile.text", tcp(), keeps_text)
    for file in kept:
        file.flush()
    on("base_class", tcp(), lambda made, text: socket.SocketType.send(made, text))
    on("duplicate", tcp(), lambda made, text: made.dup().sendall(text))
    on("thread", tcp(), in_a_thread)
    on("tls.send", tls(), lambda made, text: made.send(text))
    on("tls.sendall", tls(), lambda made, text: made.sendall(text))
    on("tls.write", tls(), lambda made, text: made.write(text))
    on("tls.unwrap", tls(), lambda made, text: made.unwrap())
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.connect(("127.0.0.1", UDP))
    on("datagram", datagrams, lambda made, text: made.send(text))
    local = socket.socket(socket.AF_UNIX)
    local.connect(UNIX)
    local.sendall(b"warm\n")
    on("unix", local, lambda made, text: made.sendall(text))


def in_a_thread(made: Any, text: bytes) -> None:
    """A thread that the session starts is in it."""
    thread = threading.Thread(target=made.sendall, args=[text])
    thread.start()
    thread.join()


async def transports(loop: str) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, port, more in ((loop, TCP, None), (f"{loop}.tls", TLS, context)):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=more)
        writer.write(b"warm\n")
        await writer.drain()
        with attempt(name):
            writer.write(f"{name}\n".encode())
            await writer.drain()
        with attempt(f"{name}.lines"):
            writer.writelines([f"{name}.lines\n".encode()])
            await writer.drain()
        # Refused before asyncio closes a connection that other tasks may be using.
        writer.write(b"again\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()


async def connects_with_uvloop() -> None:
    """uvloop connects in C, without an audit event."""
    with attempt("uvloop.connect"):
        await asyncio.open_connection("127.0.0.1", TCP)
    with attempt("uvloop.inside"):
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.read()
        writer.close()
        server.close()


def inside() -> None:
    """What stays in the program is sent."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        one, other = socket.socketpair()
        with attempt("inside"), client, accepted, one, other:
            client.sendall(b"a")
            accepted.sendall(accepted.recv(1))
            one.sendall(client.recv(1))
            found["received"] = {"said": other.recv(1).decode()}


def in_c() -> None:
    """Past every check: only the counter of the kernel tells."""
    with tcp() as made, attempt("in_c"):
        libc.send(made.fileno(), b"in_c\n", 5, 0)


def beside() -> None:
    """Another thread uses its connections while a replay is open."""
    go, done = threading.Lock(), threading.Event()  # a signal would hand the work over
    go.acquire()
    with tcp() as plain, tls() as secure:

        def run() -> None:
            go.acquire()
            plain.sendall(b"beside\n")
            secure.sendall(b"beside\n")
            done.set()

        threading.Thread(target=run).start()
        with attempt("beside"):
            go.release()
            done.wait()


if __name__ == "__main__":
    if sys.argv[7:]:
        sys.path.append(sys.argv[7])
        uvloop = import_module("uvloop")
        uvloop.run(transports("uvloop"))
        uvloop.run(connects_with_uvloop())
    else:
        sockets()
        asyncio.run(transports("asyncio"))
        inside()
        beside()
        in_c()
    Path(RESULTS).write_text(json.dumps(found), encoding="utf-8")
