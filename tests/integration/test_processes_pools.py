"""Pools of processes: every job has its lane, whichever worker gets it."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.integration.running import Ran, Theatre

pytestmark = pytest.mark.slow

METHODS = ("fork", "spawn", "forkserver")

JOBS = """
import asyncio, multiprocessing, os, random, signal, subprocess, threading, time, uuid
from concurrent.futures import *
from time import sleep
from ask import ask

IMPORTED = time.time()
known = []

def begin(name):
    known.append((name, random.random(), ask("/json?begin")))

def job(n):
    sleep(0.002 * (n % 3))
    return n, ask(f"/json?{n}"), time.time(), random.random(), IMPORTED, known

def two(a, b):
    return a, b, time.time_ns(), uuid.uuid4()

def late(n):
    sleep(0.03 * (4 - n))
    return n, time.time()

def fail(n):
    raise ValueError(n, time.time())

def failure(act):
    try:
        act()
    except Exception as error:
        return repr(error)
"""


def _write(theatre: Theatre, body: str) -> None:
    program = f'{JOBS}\nif __name__ == "__main__":\n{indent(dedent(body), "    ")}\n'
    theatre.folder.joinpath("program.py").write_text(program, encoding="utf-8")


def _play(theatre: Theatre, body: str, *, replays: int = 1) -> Ran:
    _write(theatre, body)
    recorded = theatre.record("program.py")
    for seed in range(replays):
        replayed = theatre.replay("program.py", PYTHONHASHSEED=str(seed))
        assert replayed.own == recorded.own, f"{recorded}\n{replayed}"
        assert ", 0 live, 0 unused" in replayed.summary, replayed.summary
    return recorded


@pytest.mark.parametrize("method", METHODS)
def test_whatever_pools_can_do(method: str, theatre: Theatre) -> None:
    """What workers know from their initializer and their imports is no part of the output: which
    of them gets a job is a matter of chance."""
    recorded = _play(
        theatre,
        f"""
        def plain(results):
            return [result[:4] for result in results]

        context = multiprocessing.get_context("{method}")
        with ProcessPoolExecutor(2, context, begin, ("executor",)) as pool:
            print(plain(pool.map(job, range(5))), plain(pool.map(job, range(5), chunksize=2)))
            print([future.result() for future in [pool.submit(two, n, b=n) for n in range(3)]])
            print(failure(pool.submit(fail, 3).result))
        with context.Pool(2, begin, ("pool",)) as pool:
            print(plain(pool.map(job, range(5))), plain(pool.map(job, range(3), 2)))
            print(pool.apply(two, (1, 2)), pool.apply_async(two, (5, ), dict(b=6)).get())
            print(pool.starmap(two, [(1, 2), (3, 4)]))
            print(plain(pool.imap(job, range(3))), len(list(pool.imap_unordered(job, range(3), 2))))
            print(failure(lambda: pool.apply(fail, (4,))), failure(lambda: pool.map(fail, [5])))
        print(ask("/json?after"))
        """,
    )
    assert recorded.code == 0


def test_the_lanes_of_jobs(theatre: Theatre) -> None:
    """A pool has one, and below it are its workers; so has each job, in the order in which they are
    given."""
    _play(
        theatre,
        """
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(2, context) as pool:
            list(pool.map(job, range(2)))
        with context.Pool(2) as pool:
            pool.map(job, range(2, 4))
            pool.apply(job, (4,))
            list(pool.imap(job, range(5, 7)))
        ask("/json?after")
        """,
    )
    jobs = ["0.2", "0.3", "0.5.1", "0.5.2", "0.6", "0.7.1", "0.7.2"]
    asked = [(lane, f"/json?{number}") for number, lane in enumerate(jobs)]
    assert theatre.asked() == [("0", "/json?after"), *asked]


def test_results_come_in_the_recorded_order(theatre: Theatre) -> None:
    """The jobs take the longer the earlier they are given, while recording; in a replay they do
    not. What the program does between two of them is in its place."""
    recorded = _play(
        theatre,
        """
        def say(name, result):
            print(name, result, ask(f"/json?{name}"), time.time(), flush=True)

        async def all_at_once(pool):
            loop = asyncio.get_running_loop()
            for one in asyncio.as_completed([loop.run_in_executor(pool, late, n) for n in range(4)]):
                print(await one, await asyncio.to_thread(ask, "/json?loop"))

        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(4, context) as pool:
            for future in as_completed([pool.submit(late, n) for n in range(4)]):
                say("completed", future.result())
            futures = [pool.submit(late, n) for n in range(4)]
            for future in futures:
                future.add_done_callback(lambda future: say("told", future.result()))
            print([future.result() for future in wait(futures, None, FIRST_COMPLETED).done])
            asyncio.run(all_at_once(pool))
        print([future.done() for future in futures])
        with context.Pool(4) as pool:
            for result in pool.imap_unordered(late, range(4)):
                say("unordered", result)
            for n in range(4):
                pool.apply_async(late, (n,), callback=lambda result: say("called", result))
            pool.apply_async(fail, (1,), error_callback=lambda error: say("failed", repr(error)))
            pool.close()
            pool.join()
        """,
        replays=3,
    )
    assert recorded.out.count(b"told") == 8


def test_workers_are_replaced(theatre: Theatre) -> None:
    """By a thread of the pool, when they have done what they may do."""
    _play(
        theatre,
        """
        with multiprocessing.get_context("fork").Pool(2, begin, (1,), maxtasksperchild=1) as pool:
            print([result[:4] for result in pool.map(job, range(6), 1)])
        """,
        replays=2,
    )
    assert len([path for _, path in theatre.asked() if path == "/json?begin"]) >= 6


@pytest.mark.parametrize("recorded, now", [(1, 4), (4, 1)])
def test_another_number_of_workers(recorded: int, now: int, theatre: Theatre) -> None:
    """As on another machine: each is served what was recorded of one of them."""
    number = theatre.write("number", str(recorded))
    _write(
        theatre,
        """
        number = int(open("number").read())
        with multiprocessing.get_context("fork").Pool(number, begin, ("x",)) as pool:
            print([result[:4] for result in pool.map(job, range(6), 1)], ask("/json?after"))
        """,
    )
    ran = theatre.record("program.py")
    number.write_text(str(now), encoding="utf-8")
    assert theatre.replay("program.py").own == ran.own


def test_what_feeds_a_pool(theatre: Theatre) -> None:
    """A thread of the pool draws from it, and it is the program's own all the same."""
    recorded = _play(
        theatre,
        """
        def feed():
            for n in range(3):
                yield n, ask(f"/json?feed{n}"), time.time()

        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(list(pool.imap(repr, feed())))
        """,
        replays=2,
    )
    assert recorded.code == 0


def test_processes_in_processes(theatre: Theatre) -> None:
    theatre.write(
        "inner.py",
        """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        from program import job

        def pool(n):
            with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
                return n, list(pool.map(job, range(2)))

        def grandchild(pipe):
            pipe.send(job(5))

        def child(pipe):
            there, here = multiprocessing.Pipe()
            process = multiprocessing.get_context("fork").Process(target=grandchild, args=(here,))
            process.start()
            pipe.send(there.recv())
            process.join()
        """,
    )
    recorded = _play(
        theatre,
        """
        from inner import child, pool

        with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as outer:
            print(list(outer.map(pool, range(2))))
        there, here = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=child, args=(here,))
        process.start()
        print(there.recv())
        process.join()
        """,
    )
    assert recorded.code == 0


def test_what_processes_say_to_each_other(theatre: Theatre) -> None:
    """Pipes, queues, locks, shared values and managers are the machine's: what goes through them
    is made again."""
    recorded = _play(
        theatre,
        """
        def work(n, pipe, queue, lock, total, shared):
            with lock:
                total.value += n
            shared[n] = random.random()
            queue.put((n, time.time()))
            pipe.send(ask(f"/json?{n}"))

        context = multiprocessing.get_context("fork")
        with context.Manager() as manager:
            queue, lock, total = context.Queue(), context.Lock(), context.Value("i", 0)
            shared = manager.dict()
            pipes, processes = [], []
            for n in range(3):
                there, here = context.Pipe()
                given = (n, here, queue, lock, total, shared)
                processes.append(context.Process(target=work, args=given, daemon=n == 1))
                processes[-1].start()
                pipes.append(there)
            print([pipe.recv() for pipe in pipes], sorted(queue.get() for _ in pipes))
            for process in processes:
                process.join()
            print(total.value, sorted(shared.items()), [one.exitcode for one in processes])
        """,
        replays=2,
    )
    assert recorded.code == 0


def test_forks_in_threads(theatre: Theatre) -> None:
    recorded = _play(
        theatre,
        """
        said = {}

        def fork(n):
            reads, writes = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.write(writes, repr(two(n, ask(f"/json?{n}"))).encode())
                os._exit(n)
            os.close(writes)
            said[n] = open(reads).read(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        threads = [threading.Thread(target=fork, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(sorted(said.items()))
        """,
        replays=2,
    )
    assert recorded.code == 0


def test_a_worker_that_dies(theatre: Theatre) -> None:
    recorded = _play(
        theatre,
        """
        def kill(n):
            print(time.time(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        def leave(n):
            print(time.time(), flush=True)
            os._exit(n)

        context = multiprocessing.get_context("fork")
        for end in (kill, leave):
            with ProcessPoolExecutor(2, context) as pool:
                print(pool.submit(two, 1, 2).result())
                print(failure(pool.submit(end, 3).result))
            process = context.Process(target=end, args=(4,))
            process.start()
            process.join()
            print(process.exitcode, ask("/json?after"))
        """,
        replays=2,
    )
    assert recorded.out.count(b"BrokenProcessPool") == 2


def test_processes_that_the_program_ends_wherever_they_are(theatre: Theatre) -> None:
    """In a replay they do not come as far as they did, or come further if they are not stopped."""
    recorded = _play(
        theatre,
        """
        def poll(pipe):
            while True:
                pipe.send(two(1, ask("/json?poll")))
                sleep(0.002)

        context = multiprocessing.get_context("fork")
        there, here = context.Pipe()
        process = context.Process(target=poll, args=(here,))
        process.start()
        print(there.recv(), there.recv())
        process.terminate()
        process.join()
        print(process.exitcode)
        there, here = context.Pipe()
        with context.Pool(1) as pool:
            pool.apply_async(poll, (here,))
            print(there.recv()[0])
        there, here = context.Pipe()
        context.Process(target=poll, args=(here,), daemon=True).start()
        print(there.recv()[0])
        """,
        replays=3,
    )
    assert b"\n-15\n" in recorded.out


# Differences


@pytest.mark.parametrize(
    "start",
    [
        "context.Pool(3).map(job, range(3), 1)",
        "list(ProcessPoolExecutor(3, context).map(job, range(3)))",
    ],
    ids=["pool", "executor"],
)
def test_many_workers_that_differ(start: str, theatre: Theatre) -> None:
    """The program is told, and the first one is shown in full."""
    _write(theatre, f'context = multiprocessing.get_context("fork")\n{start}')
    theatre.record("program.py")
    program = theatre.folder / "program.py"
    program.write_text(program.read_text("utf-8").replace('f"/json?{n}"', '"/json?other"'), "utf-8")
    ran = theatre.replay("program.py")
    assert ran.code == 1
    assert ran.err.count("divergence: event_payload_mismatch, lane 0.") == 1
    assert ran.err.count("Traceback") == 1
    assert f"    {start}\nreenact.DivergenceError\n" in ran.err
    assert "/reenact/" not in ran.err


def test_a_process_that_differs(theatre: Theatre) -> None:
    _write(
        theatre,
        """
        process = multiprocessing.get_context("fork").Process(target=job, args=(1,))
        process.start()
        process.join()
        print(process.exitcode)
        """,
    )
    theatre.record("program.py")
    program = theatre.folder / "program.py"
    program.write_text(program.read_text("utf-8").replace('f"/json?{n}"', '"/json?other"'), "utf-8")
    ran = theatre.replay("program.py")
    assert (ran.code, ran.out) == (1, b"1\n")
    assert ran.err.count("divergence: event_payload_mismatch, lane 0.1,") == 1
    assert ran.err.count("Traceback") == 1
