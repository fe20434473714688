"""The older name of the transport of major 1, which tells how the server calls the session."""

import asyncio
import os

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client


async def main():
    async with streamablehttp_client(os.environ["HTTP"]) as (read, write, session_id):
        print(session_id())
        async with ClientSession(read, write) as session:
            await session.initialize()
            print(session_id())
            print(len((await session.list_tools()).tools))


asyncio.run(main())
