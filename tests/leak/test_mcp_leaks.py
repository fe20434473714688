"""Secrets in MCP: in what a server is told, in what it says, and in how it is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.frameworks.mcp.conftest import stage
from tests.frameworks.mcp.staging import Stage
from tests.leak.planted import SHAPES, Plant, plant_shape
from tests.leak.search import Planted, decoded, leaks

__all__ = ["stage"]

pytestmark = pytest.mark.soak_only

PLACES = ("argument", "word", "environment", "result", "stderr", "log", "answer", "error")

_SERVER = """
import json, os, sys

try:
    from mcp.server.fastmcp import Context, FastMCP
except ImportError:
    from mcp.server import MCPServer as FastMCP
    from mcp.server.mcpserver import Context

from mcp.types import SamplingMessage, TextContent

server = FastMCP("leaky", log_level="CRITICAL")
plants = json.load(open("plants.json"))

@server.tool()
async def tell(note: str, context: Context) -> str:
    for text in plants["stderr"]:
        print(text, file=sys.stderr, flush=True)
    for text in plants["log"]:
        await context.session.send_log_message("info", text)
    message = SamplingMessage(role="user", content=TextContent(type="text", text="well?"))
    await context.session.create_message([message], max_tokens=5)
    return " ".join(plants["result"])

@server.tool()
async def fail(note: str) -> str:
    raise ValueError(" ".join(plants["error"]))

server.run()
"""

_PROGRAM = """
import asyncio, json, sys
import mcp.types as types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

plants = json.load(open("plants.json"))
environ = {f"NOTE_{number}": text for number, text in enumerate(plants["environment"])}

async def sampled(context, params):
    text = types.TextContent(type="text", text=" ".join(plants["answer"]))
    return types.CreateMessageResult(role="assistant", content=text, model="m")

async def main():
    words = ["leaky.py", *(f"--note={text}" for text in plants["word"])]
    server = StdioServerParameters(command=sys.executable, args=words, env=environ)
    with open("errors", "w") as errors:
        async with stdio_client(server, errors) as (read, write):
            async with ClientSession(read, write, sampling_callback=sampled) as session:
                await session.initialize()
                for text in plants["argument"]:
                    result = await session.call_tool("tell", {"note": text})
                    print(len(result.content[0].text))
                print(len((await session.call_tool("fail", {"note": "x"})).content))

asyncio.run(main())
"""


def test_no_secret_is_kept(stage: Stage) -> None:
    planted = {place: _plants(place) for place in PLACES}
    texts = {place: [plant.text for plant in found] for place, found in planted.items()}
    (stage.folder / "plants.json").write_text(json.dumps(texts), "utf-8")
    stage.write("leaky", _SERVER)
    stage.write("program", _PROGRAM)
    recorded = stage.record("program")
    assert recorded.code == 0, recorded.err
    replayed = stage.replay("program")
    assert replayed.out == recorded.out, replayed.err
    said = (recorded.err + replayed.err).encode()
    found = leaks(said + _everything(stage.folder / "c"), _as_planted(planted))
    assert found == []


def _plants(place: str) -> list[Plant]:
    kinds = ("shape.openai", "shape.github", "shape.slack", "shape.aws")
    assert {*kinds} <= SHAPES.keys()
    return [plant_shape(kind, f"mcp {place}") for kind in kinds]


def _as_planted(planted: dict[str, list[Plant]]) -> list[Planted]:
    return [Planted(place, None, plants) for place, plants in planted.items()]  # type: ignore[arg-type]


def _everything(folder: Path) -> bytes:
    parts: list[bytes] = []
    for file in sorted(folder.rglob("*")):
        parts.append(file.name.encode())
        if file.is_file():
            content = file.read_bytes()
            parts += (content, *decoded(content))
    return b"\n".join(parts)
