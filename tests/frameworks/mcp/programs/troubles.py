"""Calls that time out, are cancelled, come to nothing; and a server that dies."""

import asyncio
import sys
from datetime import timedelta

import anyio
import mcp
from client import connected, over_stdio, text_of
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

Failed = getattr(mcp, "McpError", None) or mcp.MCPError
MAJOR_1 = hasattr(mcp, "McpError")


async def main():
    async with connected() as session:
        short = timedelta(seconds=0.2) if MAJOR_1 else 0.2
        try:
            await session.call_tool("hang", {}, read_timeout_seconds=short)
        except Failed as error:
            print("timed out:", error)
        with anyio.move_on_after(0.1) as scope:
            await session.call_tool("hang", {})
        print("moved on:", scope.cancelled_caught)
        try:
            async with asyncio.timeout(0.1):
                await asyncio.gather(*(session.call_tool("hang", {}) for _ in range(3)))
        except TimeoutError:
            print("gave up")
        task = asyncio.create_task(session.call_tool("hang", {}))
        print(text_of(await session.call_tool("count", {})))
        task.cancel()
        print(await asyncio.gather(task, return_exceptions=True))
        print(text_of(await session.call_tool("count", {})))
        left = asyncio.create_task(session.call_tool("hang", {}))
        print(text_of(await session.call_tool("count", {})))
    if MAJOR_1:
        left.cancel()  # nobody would ever answer it
    print("left open:", await asyncio.gather(left, return_exceptions=True))

    async with connected() as session:
        try:
            await session.call_tool("crash", {})
        except Failed as error:
            print("crashed:", error)
        try:
            await session.call_tool("count", {})
        except Exception as error:
            print("afterwards:", type(error).__name__)

    try:
        async with connected(over_stdio(DIES="yes")):
            print("never here")
    except BaseException as error:
        print("never began:", shown(error))

    try:
        async with stdio_client(StdioServerParameters(command="no-such-command")):
            print("never here")
    except OSError as error:
        print(type(error).__name__, error)

    try:
        async with connected() as session:
            raise LookupError("the program's own")
    except BaseException as error:
        print(shown(error))


def shown(error):
    if isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}[{', '.join(map(shown, error.exceptions))}]"
    return f"{type(error).__name__}: {error}"


asyncio.run(main())
print("end", file=sys.stderr)
