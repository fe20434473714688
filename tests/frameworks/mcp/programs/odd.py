"""Pages of tools, calls that are answered in another order, and lines that are no messages."""

import asyncio
import os
import sys

from client import connected, text_of
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client


async def handled(message):
    if isinstance(message, Exception):
        print("not a message")


async def main():
    environ = {"JOURNAL": os.environ["JOURNAL"]}
    server = StdioServerParameters(command=sys.executable, args=["odd_server.py"], env=environ)
    async with connected(stdio_client(server), message_handler=handled) as session:
        cursor, names = None, []
        while True:
            page = await listed(session, cursor)
            names += [tool.name for tool in page.tools]
            cursor = getattr(page, "nextCursor", None) or getattr(page, "next_cursor", None)
            if cursor is None:
                break
        print(names)
        done = []

        async def call(name, number):
            done.append(text_of(await session.call_tool(name, {"number": number})))

        async with asyncio.TaskGroup() as group:
            for number, name in enumerate("aacb"):
                group.create_task(call(name, number))
        print(done)


async def listed(session, cursor):
    from mcp.types import PaginatedRequestParams

    return await session.list_tools(params=PaginatedRequestParams(cursor=cursor))


asyncio.run(main())
