"""Programs that start other programs from a loop."""

from __future__ import annotations

import pytest

from tests.integration.running import Theatre, joined

HEAD = """
import asyncio, os, signal, sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
"""

TALKING = {
    "a_command": """
    process = await asyncio.create_subprocess_exec("date", "+%N", stdout=PIPE, stderr=PIPE)
    print(await process.communicate(), process.returncode)
    """,
    "a_shell": """
    process = await asyncio.create_subprocess_shell("date +%N; exit 3", stdout=PIPE, stderr=STDOUT)
    print(await process.stdout.read(), await process.wait())
    """,
    "much_both_ways": """
    process = await asyncio.create_subprocess_exec("sort", stdin=PIPE, stdout=PIPE)
    out, _ = await process.communicate(b"some text\\n" * 30_000)
    print(len(out), process.returncode)
    """,
    "a_dialogue": """
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    for n in range(10):
        process.stdin.write(b"%d\\n" % n)
        await process.stdin.drain()
        print(await process.stdout.readline())
    process.stdin.close()
    print(await process.wait(), await process.stdout.read())
    """,
    "as_it_comes": """
    process = await asyncio.create_subprocess_shell(
        "for n in 1 2 3 4; do date +%N; sleep 0.01; done", stdout=PIPE)
    while piece := await process.stdout.read(100):
        print(piece)
    print(await process.wait())
    """,
    "its_own_output": """
    print("before", flush=True)
    process = await asyncio.create_subprocess_shell("date +%N; echo told >&2; exit 4")
    print(await process.wait(), flush=True)
    """,
    "too_slow": """
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    try:
        await asyncio.wait_for(process.wait(), 0.02)
    except asyncio.TimeoutError:
        print("too slow", process.returncode)
    process.terminate()
    print(await process.wait())
    """,
    "a_wait_that_is_cancelled": """
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    waiting = asyncio.create_task(process.wait())
    await asyncio.sleep(0.01)
    waiting.cancel()
    print(await asyncio.gather(waiting, return_exceptions=True), process.returncode)
    process.kill()
    print(await process.wait())
    """,
    "nobody_there": """
    try:
        await asyncio.create_subprocess_exec("no-such-program")
    except FileNotFoundError as error:
        print(error)
    """,
    "ten_at_once": """
    async def ask(n):
        process = await asyncio.create_subprocess_shell(
            f"sleep 0.0$(($$ % 7)); date +%N; exit {n}", stdout=PIPE)
        out, _ = await process.communicate()
        print(n, out, process.returncode)
        return n
    for done in asyncio.as_completed([ask(n) for n in range(10)]):
        print(await done)
    """,
    "a_protocol": """
    class Says(asyncio.SubprocessProtocol):
        def __init__(self):
            self.done = asyncio.get_running_loop().create_future()
        def pipe_data_received(self, fd, data):
            print(fd, data)
        def process_exited(self):
            print("ended")
        def connection_lost(self, error):
            self.done.set_result(error)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_shell(Says, "date +%N; exit 2", stdin=DEVNULL)
    print(await protocol.done, transport.get_returncode())
    """,
    "of_anyio": """
    import anyio
    print(await anyio.run_process("date +%N"))
    async with await anyio.open_process(["cat"]) as process:
        for n in range(5):
            await process.stdin.send(b"%d" % n)
            print(await process.stdout.receive())
        await process.stdin.aclose()
        print(await process.wait())
    with anyio.move_on_after(0.02):
        await anyio.run_process(["sleep", "1000"])
    print("gave up")
    """,
    "with_others": """
    import subprocess
    async def tick():
        for n in range(4):
            await asyncio.sleep(0.004)
            print("tick", n)
    async def ask():
        process = await asyncio.create_subprocess_shell(
            "for n in 1 2 3; do date +%N; sleep 0.005; done", stdout=PIPE)
        async for line in process.stdout:
            print(line)
        return await process.wait()
    print(await asyncio.gather(tick(), ask(), asyncio.to_thread(subprocess.call, ["true"])))
    """,
}


@pytest.mark.parametrize("bodies", joined(TALKING, 7))
def test_what_a_program_learns_from_others(bodies: list[str], theatre: Theatre) -> None:
    mains = [f"async def main():\n{body}\nasyncio.run(main())\n" for body in bodies]
    program = f"{HEAD}\n{''.join(mains)}"
    theatre.folder.joinpath("program.py").write_text(program, encoding="utf-8")
    assert theatre.check("program.py").code == 0
