"""Work that a replay hands to processes outside it, in every way that ``multiprocessing`` has.

``process_attempts.py RECORDING RESULTS WITNESS METHOD`` writes one entry per attempt. Each process is
started by METHOD before the session and appends the names of its items to the file WITNESS. It gets one
item before a strict replay, one inside and one after it: the second must not arrive. With the same
processes started inside the replay, the item must arrive.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

import reenact

Hand = Callable[[str], Any]
"""Hands over an item, and returns when the process has noted it."""

found: dict[str, dict[str, Any]] = {}


def note(item: str) -> str:
    """Note ``item``, in another process."""
    with open(os.environ["WITNESS"], "a", encoding="utf-8") as file:
        file.write(f"{item}\n")
    return item


def note_first(item: str, _: int) -> str:
    return note(item)


def serve(receive: Callable[[], Any], answer: Callable[[str], None]) -> None:
    while (item := receive()) is not None:
        answer(note(item))


def serve_queue(items: Any, answers: Any) -> None:
    serve(items.get, answers.send)


def serve_connection(items: Any, answers: Any) -> None:
    serve(items.recv, answers.send)


def serve_bytes(items: Any, answers: Any) -> None:
    serve(lambda: items.recv_bytes().decode() or None, answers.send)


def serve_clients(family: str, answers: Any) -> None:
    """Accept one client after the other, each with one item. The empty one is the last."""
    with Listener(None, family) as listener:
        answers.send(listener.address)
        while True:
            with listener.accept() as client, suppress(EOFError):  # refused before it sent
                item = client.recv()
                if not item:
                    return
                answers.send(note(item))


@contextmanager
def process(
    context: Any, serving: Callable[..., None], items: Any, end: Callable[[], None]
) -> Iterator[Callable[[], Any]]:
    """A process that serves ``items``. Yields a function that waits for its next result."""
    answers, sends = context.Pipe(duplex=False)
    worker = context.Process(target=serving, args=(items, sends))
    worker.start()
    try:
        yield answers.recv
    finally:
        end()
        worker.join()


def asking(put: Callable[[Any], None], answer: Callable[[], Any]) -> Hand:
    def hand(item: str) -> Any:
        put(item)
        return answer()

    return hand


@contextmanager
def executor(context: Any, use: Callable[[Any, str], Any]) -> Iterator[Hand]:
    with ProcessPoolExecutor(1, context) as pool:
        yield lambda item: use(pool, item)


def in_loop(pool: Any, item: str) -> Any:
    async def run() -> Any:
        return await asyncio.get_running_loop().run_in_executor(pool, note, item)

    return asyncio.run(run())


@contextmanager
def pool(context: Any, use: Callable[[Any, str], Any]) -> Iterator[Hand]:
    with context.Pool(1) as made:
        yield lambda item: use(made, item)
        made.close()
        made.join()


@contextmanager
def queue(context: Any, kind: str) -> Iterator[Hand]:
    items = getattr(context, kind)()
    with process(context, serve_queue, items, lambda: items.put(None)) as answer:
        yield asking(lambda item: items.put(item), answer)


@contextmanager
def bound(context: Any) -> Iterator[Hand]:
    """``send`` was looked up before any session."""
    theirs, ours = context.Pipe()
    send = ours.send
    with process(context, serve_connection, theirs, lambda: send(None)) as answer:
        yield asking(send, answer)


@contextmanager
def pipe(context: Any, duplex: bool) -> Iterator[Hand]:
    theirs, ours = context.Pipe(duplex)
    with process(context, serve_connection, theirs, lambda: ours.send(None)) as answer:
        yield asking(lambda item: ours.send(item), answer)


@contextmanager
def pipe_of_bytes(context: Any) -> Iterator[Hand]:
    theirs, ours = context.Pipe()
    with process(context, serve_bytes, theirs, lambda: ours.send_bytes(b"")) as answer:
        yield asking(lambda item: ours.send_bytes(item.encode()), answer)


@contextmanager
def thread(context: Any) -> Iterator[Hand]:
    """A thread of the session, if there is one, puts the item."""
    with queue(context, "Queue") as direct:

        def hand(item: str) -> Any:
            raised: list[BaseException] = []

            def run() -> None:
                try:
                    direct(item)
                except BaseException as error:
                    raised.append(error)

            one = threading.Thread(target=run)
            one.start()
            one.join()
            if raised:
                raise raised[0]

        yield hand


@contextmanager
def manager(context: Any) -> Iterator[Hand]:
    """The item goes through the process of a manager to the one that serves it."""
    with context.Manager() as made:
        items = made.Queue()
        with process(context, serve_queue, items, lambda: items.put(None)) as answer:
            yield asking(lambda item: items.put(item), answer)


@contextmanager
def listener(context: Any, family: str) -> Iterator[Hand]:
    def end() -> None:
        with Client(address) as client:
            client.send("")

    with process(context, serve_clients, family, end) as answer:
        address = answer()

        def hand(item: str) -> Any:
            with Client(address) as client:
                client.send(item)
            return answer()

        yield hand


COPY = """
import sys
for line in sys.stdin:
    with open(sys.argv[1], "a") as file:
        file.write(line)
    print(flush=True)
"""


@contextmanager
def program(binary: bool) -> Iterator[Hand]:
    """A program that reads items from its standard input."""
    words = [sys.executable, "-c", COPY, os.environ["WITNESS"]]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, text=not binary, bufsize=0 if binary else 1, **pipes) as child:
        stdin, stdout = child.stdin, child.stdout
        assert stdin is not None
        assert stdout is not None

        def hand(item: str) -> Any:
            if binary:
                os.write(stdin.fileno(), f"{item}\n".encode())
            else:
                stdin.write(f"{item}\n")
            return stdout.readline()

        yield hand
        stdin.close()


KINDS: dict[str, Callable[[Any], AbstractContextManager[Hand]]] = {
    "submit": lambda context: executor(
        context, lambda pool, item: pool.submit(note, item).result()
    ),
    "executor.map": lambda context: executor(
        context, lambda pool, item: list(pool.map(note, [item]))
    ),
    "run_in_executor": lambda context: executor(context, in_loop),
    "apply": lambda context: pool(context, lambda made, item: made.apply(note, (item,))),
    "apply_async": lambda context: pool(
        context, lambda made, item: made.apply_async(note, (item,)).get()
    ),
    "map": lambda context: pool(context, lambda made, item: made.map(note, [item])),
    "starmap": lambda context: pool(
        context, lambda made, item: made.starmap(note_first, [(item, 1)])
    ),
    "imap": lambda context: pool(context, lambda made, item: list(made.imap(note, [item]))),
    "imap_unordered": lambda context: pool(
        context, lambda made, item: list(made.imap_unordered(note, [item]))
    ),
    "Queue": lambda context: queue(context, "Queue"),
    "JoinableQueue": lambda context: queue(context, "JoinableQueue"),
    "SimpleQueue": lambda context: queue(context, "SimpleQueue"),
    "thread": thread,
    "pipe": lambda context: pipe(context, True),
    "one-way pipe": lambda context: pipe(context, False),
    "bytes": pipe_of_bytes,
    "bound send": bound,
    "manager": manager,
    "unix listener": lambda context: listener(context, "AF_UNIX"),
    "text for a program": lambda context: program(False),
    "bytes for a program": lambda context: program(True),
    "TCP listener": lambda context: listener(context, "AF_INET"),
}


def session() -> reenact.Session:
    return reenact.session(capture=sys.argv[1], mode="replay", strict=True, warn=lambda text: None)


def attempt(name: str, context: Any) -> None:
    refused = ""
    made = session()
    with KINDS[name](context) as hand:
        hand(f"{name}/before")
        try:
            with made:
                try:
                    hand(f"{name}/refused")
                except BaseException as error:
                    refused = type(error).__name__
            ended = ""
        except reenact.DivergenceError as error:
            ended = " ".join(str(error).split())
        hand(f"{name}/after")
    found[name] = {"refused": refused, "ended": ended, "status": made.report().status}


def attempt_inside(name: str, context: Any) -> None:
    made = session()
    with made, KINDS[name](context) as hand:
        hand(f"{name}/inside")
    found[name]["inside"] = made.report().status


def idle_executor(context: Any) -> None:
    """An executor that was made before the session and has no process yet starts them inside."""
    made = session()
    with ProcessPoolExecutor(1, context) as pool:
        with made:
            pool.submit(note, "idle/inside").result()
        found["idle"] = {"status": made.report().status}


def ending(context: Any) -> None:
    """Pools and queues of before are closed, and collected, in a replay."""
    first, second = ProcessPoolExecutor(1, context), context.Pool(1)
    third = context.Manager()
    items = context.Queue()
    held = third.list()
    first.submit(note, "ending/before").result()
    second.apply(note, ("ending/before",))
    made = session()
    with made:
        first.shutdown()
        second.close()
        second.join()
        items.close()
        items.join_thread()
        del first, second, items, held
        gc.collect()
        third.shutdown()
    found["ending"] = {"status": made.report().status}


def started_meanwhile(context: Any) -> None:
    """A thread outside the session starts a process while the session is open."""
    go, there = threading.Event(), threading.Event()
    pools: list[ProcessPoolExecutor] = []

    def run() -> None:
        go.wait()
        pools.append(ProcessPoolExecutor(1, context))
        pools[0].submit(note, "meanwhile/before").result()
        there.set()

    outsider = threading.Thread(target=run)
    outsider.start()
    made, refused = session(), ""
    try:
        with made:
            go.set()
            there.wait()
            try:
                pools[0].submit(note, "meanwhile/refused").result()
            except BaseException as error:
                refused = type(error).__name__
    except reenact.DivergenceError:
        pass
    outsider.join()
    pools[0].shutdown()
    found["meanwhile"] = {"status": made.report().status, "refused": refused}


if __name__ == "__main__":
    os.environ["WITNESS"] = sys.argv[3]
    method = multiprocessing.get_context(sys.argv[4])
    for kind in KINDS:
        attempt(kind, method)
        if kind != "run_in_executor" and not kind.endswith("program"):
            attempt_inside(kind, method)
    for other in (idle_executor, ending, started_meanwhile):
        other(method)
    Path(sys.argv[2]).write_text(json.dumps(found), encoding="utf-8")
