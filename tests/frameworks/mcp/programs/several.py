"""Two servers that have the same tools, and many calls at once."""

import asyncio

from client import connected, over_stdio, text_of


async def main():
    async with (
        connected(over_stdio(NAME="left")) as left,
        connected(over_stdio(NAME="right")) as right,
    ):
        for session in (left, right):
            print(len((await session.list_tools()).tools))
        calls = [session.call_tool("count", {}) for _ in range(5) for session in (left, right)]
        print([text_of(one) for one in await asyncio.gather(*calls)])
        done = []

        async def count(session, name):
            done.append((name, text_of(await session.call_tool("count", {}))))

        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(count(left if number % 2 else right, number))
        print(done)


asyncio.run(main())
