"""What an agent that is connected and has nothing to do costs: memory, and the time to look for news.

Against as many connections to an endpoint of server-sent events made of Starlette and uvicorn alone.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.measure import Row, Setting, at_most, fact
from bench.server_places import places
from bench.server_process import APP, ENVIRONMENT, Line, serving

TITLE = "agents that are connected"

_BARE: Final = """
import asyncio, socket, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

async def events():
    while True:
        yield b": ping\\n\\n"
        await asyncio.sleep(15)

async def stream(request):
    return StreamingResponse(events(), media_type="text/event-stream")

sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
print("at", "http://127.0.0.1:%d" % sock.getsockname()[1], flush=True)
config = uvicorn.Config(Starlette(routes=[Route("/{n}", stream)]), http="h11", log_level="error")
uvicorn.Server(config).run([sock])
"""
_WATCHED: Final = 10.0
"""Seconds for which the time that idle streams take is counted."""


def run(setting: Setting) -> Iterator[Row]:
    count = 100 if setting.quick else 1_000
    _allow(2 * count + 200)
    with _bare() as (url, pid):
        bare = asyncio.run(_cost(url, pid, [f"/{number}" for number in range(count)], ""))
    yield fact(f"bare SSE, {count:,} streams: memory each", [bare.memory], "KB")
    for place in places(setting):
        with serving(place.data, place.address) as process:
            key = place.rights[0].agent_key
            paths = _register(process.url, key, count)
            found = asyncio.run(_cost(process.url, process.pid, paths, key))
        label = f"{place.name}, {count:,} agents connected"
        ratio = found.memory / max(bare.memory, 1)
        yield fact(f"{label}: memory each / bare SSE", [ratio], "×", at_most(3), clock="bytes")
        yield fact(f"{label}: memory each", [found.memory], "KB")
        yield fact(f"{label}, idle: processor", [100 * found.busy], "%", clock="cpu")


class _Cost(msgspec.Struct, frozen=True):
    """``memory`` in KB for each stream; ``busy``: processors that all of them take together."""

    memory: float
    busy: float


@contextmanager
def _bare() -> Iterator[tuple[str, int]]:
    process = subprocess.Popen([sys.executable, "-c", _BARE], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1], process.pid
    finally:
        process.kill()
        process.wait()


def _register(url: str, key: str, count: int) -> list[str]:
    """The paths of the streams of so many agents."""
    paths = []
    with Line(url, key=key) as line:
        for number in range(count):
            said: dict[str, Any] = {
                "protocol": 1,
                "agentId": f"agent-{number}",
                "app": APP,
                "environment": ENVIRONMENT,
            }
            epoch = msgspec.json.decode(line.post("/api/v1/agents", msgspec.json.encode(said)))
            paths.append(f"/api/v1/agents/agent-{number}/commands?epoch={epoch['epoch']}")
    return paths


async def _cost(url: str, pid: int, paths: list[str], key: str) -> _Cost:
    """A tenth of the streams is opened and closed before, so that what is made once is there."""
    for writer in await _open(url, paths[: len(paths) // 10], key):
        writer.close()
    await asyncio.sleep(1)
    before = _memory(pid)
    writers = await _open(url, paths, key)
    await asyncio.sleep(1)
    after, began = _memory(pid), _processor(pid)
    await asyncio.sleep(_WATCHED)
    busy = (_processor(pid) - began) / _WATCHED
    for writer in writers:
        writer.close()
    return _Cost((after - before) / len(paths), busy)


async def _open(url: str, paths: list[str], key: str) -> list[asyncio.StreamWriter]:
    """All streams; each has said its first word."""
    host, port = url.removeprefix("http://").split(":")
    gate = asyncio.Semaphore(20)

    async def one(path: str) -> asyncio.StreamWriter:
        async with gate:
            reader, writer = await asyncio.open_connection(host, int(port))
            head = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\r\n"
            writer.write(head.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in answer.partition(b"\r\n")[0]:
                raise RuntimeError(answer.decode())
            await reader.readuntil(b"\n\n")
            return writer

    return list(await asyncio.gather(*map(one, paths)))


def _memory(pid: int) -> float:
    """KB that are in use."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text("ascii"))
    assert found is not None
    return float(found[1])


def _processor(pid: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _allow(files: int) -> None:
    """Here and in the servers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(files, soft), hard), hard))
