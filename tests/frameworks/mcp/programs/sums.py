"""A few tools, one after the other."""

import asyncio

from client import connected, text_of


async def main():
    async with connected() as session:
        print(text_of(await session.call_tool("add", {"a": 1, "b": 2})))
        print(text_of(await session.call_tool("count", {})))
        print(text_of(await session.call_tool("add", {"a": 3, "b": 4})))


asyncio.run(main())
