"""A server with something of everything, of either major of the SDK.

``JOURNAL`` names a file that it appends to: a line when it starts, and one per tool that it runs.
"""

import os
import sys

from mcp.types import SamplingMessage, TextContent

try:
    from mcp.server.fastmcp import Context, FastMCP, Image
except ImportError:
    from mcp.server import MCPServer as FastMCP
    from mcp.server.mcpserver import Context, Image

from pydantic import BaseModel

server = FastMCP(os.environ.get("NAME", "sums"), log_level="ERROR")
counted = 0


def note(line):
    with open(os.environ["JOURNAL"], "a", encoding="utf-8") as journal:
        journal.write(f"{line}\n")


class Sum(BaseModel):
    total: int


class Age(BaseModel):
    years: int


@server.tool()
async def add(a: int, b: int) -> Sum:
    note(f"add {a} {b}")
    return Sum(total=a + b)


@server.tool()
async def count() -> int:
    """Another answer every time."""
    global counted
    counted += 1
    note(f"count {counted}")
    return counted


@server.tool()
async def steps(context: Context) -> str:
    note("steps")
    for number in range(3):
        await context.report_progress(number, 3, f"step {number}")
    return "done"


@server.tool()
async def grumble() -> str:
    note("grumble")
    print("grumbled", file=sys.stderr, flush=True)
    return "grumbled"


@server.tool()
async def fail() -> str:
    note("fail")
    raise ValueError("no luck")


@server.tool()
async def picture() -> Image:
    note("picture")
    return Image(data=bytes(range(256)), format="png")


@server.tool()
async def large(size: int) -> str:
    note("large")
    return "x" * size


@server.tool()
async def hang() -> str:
    """Never answers."""
    import anyio

    note("hang")
    await anyio.sleep_forever()
    return ""


@server.tool()
async def crash() -> str:
    note("crash")
    os._exit(3)


@server.tool()
async def ask(context: Context) -> str:
    """Asks the client's model."""
    note("ask")
    message = SamplingMessage(role="user", content=TextContent(type="text", text="well?"))
    answer = await context.session.create_message([message], max_tokens=5)
    return f"the model says {answer.content.text}"


@server.tool()
async def elicit(context: Context) -> str:
    """Asks the person."""
    note("elicit")
    answer = await context.elicit("how old?", Age)
    return f"{answer.action} {answer.data.years}"


@server.tool()
async def roots(context: Context) -> str:
    note("roots")
    found = await context.session.list_roots()
    return " ".join(str(root.uri) for root in found.roots)


@server.tool()
async def told(context: Context) -> str:
    """Says something in between, and that its tools have changed."""
    note("told")
    await context.session.send_log_message("info", "in between")
    await context.session.send_tool_list_changed()
    return "told"


@server.resource("memo://{name}")
def memo(name: str) -> str:
    note(f"memo {name}")
    return f"memo of {name}"


@server.prompt()
def greet(name: str) -> str:
    note(f"greet {name}")
    return f"Greet {name}."


if __name__ == "__main__":
    note("start")
    if "DIES" in os.environ:
        sys.exit("died before it began")
    if len(sys.argv) > 1:
        import uvicorn

        kind, number = sys.argv[1:]
        app = server.sse_app() if kind == "sse" else server.streamable_http_app()
        uvicorn.run(app, fd=int(number), log_level="critical", timeout_graceful_shutdown=1)
    else:
        server.run()
