"""A connection to the server, by process or by URL, for either major of the SDK."""

import os
import sys
from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def over_stdio(**environ):
    names = ("JOURNAL", "NAME")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return stdio_client(
        StdioServerParameters(command=sys.executable, args=["server.py"], env={**kept, **environ})
    )


def over_http():
    if "SSE" in os.environ:
        from mcp.client.sse import sse_client

        return sse_client(os.environ["SSE"])
    from mcp.client.streamable_http import streamable_http_client

    return streamable_http_client(os.environ["HTTP"])


@asynccontextmanager
async def connected(transport=None, **callbacks):
    if transport is None:
        transport = over_http() if "HTTP" in os.environ or "SSE" in os.environ else over_stdio()
    async with transport as streams, ClientSession(*streams[:2], **callbacks) as session:
        await session.initialize()
        yield session


def text_of(result):
    return " ".join(part.text for part in result.content)
