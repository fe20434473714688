"""The high-level client of major 2, which finds out what the server speaks by itself."""

import asyncio
import os
import sys

import mcp.types as types
from client import text_of
from mcp import Client, StdioServerParameters


async def elicited(context, params):
    print("asked by the server:", params.message)
    return types.ElicitResult(action="accept", content={"years": 7})


async def main():
    environ = {"JOURNAL": os.environ["JOURNAL"]}
    process = StdioServerParameters(command=sys.executable, args=["server.py"], env=environ)
    async with Client(os.environ.get("HTTP", process), elicitation_callback=elicited) as client:
        print(client.protocol_version, len((await client.list_tools()).tools))
        print((await client.call_tool("add", {"a": 1, "b": 2})).structured_content)
        print(text_of(await client.call_tool("count", {})))

        async def progressed(done, total, message):
            print("progress:", done, total, message)

        print(text_of(await client.call_tool("steps", {}, progress_callback=progressed)))
        print((await client.read_resource("memo://milk")).contents[0].text)


asyncio.run(main())
