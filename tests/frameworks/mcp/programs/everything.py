"""Everything that a client can ask for, and everything that a server asks of it."""

import asyncio

import mcp.types as types
from client import connected, text_of


async def sampled(context, params):
    print("asked by the server:", params.messages[0].content.text)
    text = types.TextContent(type="text", text="fine")
    return types.CreateMessageResult(role="assistant", content=text, model="m")


async def elicited(context, params):
    print("asked by the server:", params.message)
    return types.ElicitResult(action="accept", content={"years": 7})


async def listed(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///a"), types.Root(uri="file:///b")])


async def logged(params):
    print("log:", params.level, params.data)


async def handled(message):
    inner = getattr(message, "root", message)
    print("message:", getattr(inner, "method", repr(inner)))


async def progressed(done, total, message):
    print("progress:", done, total, message)


async def main():
    callbacks = {
        "sampling_callback": sampled,
        "elicitation_callback": elicited,
        "list_roots_callback": listed,
        "logging_callback": logged,
        "message_handler": handled,
    }
    async with connected(**callbacks) as session:
        tools = (await session.list_tools()).tools
        print(sorted(tool.name for tool in tools))
        print((await session.call_tool("add", {"a": 1, "b": 2})).model_dump_json())
        print(text_of(await session.call_tool("steps", {}, progress_callback=progressed)))
        print(text_of(await session.call_tool("grumble", {})))
        print((await session.call_tool("fail", {})).model_dump_json())
        print(len((await session.call_tool("picture", {})).content[0].data))
        print(len(text_of(await session.call_tool("large", {"size": 300_000}))))
        print(text_of(await session.call_tool("ask", {})))
        print(text_of(await session.call_tool("elicit", {})))
        print(text_of(await session.call_tool("roots", {})))
        print(text_of(await session.call_tool("told", {})))
        print((await session.read_resource("memo://milk")).contents[0].text)
        print((await session.get_prompt("greet", {"name": "Ann"})).messages[0].content.text)
        print((await session.list_resource_templates()).model_dump_json())
        try:
            await session.get_prompt("missing", {})
        except Exception as error:
            print(type(error).__name__, error.error.code, error)


asyncio.run(main())
