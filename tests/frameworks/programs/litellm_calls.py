"""litellm: OpenAI and Anthropic through one door; whole, streamed, with tools; sync and async."""

import asyncio
import os

import litellm

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
SERVER = os.environ["MODEL_SERVER"]
OPENAI = {"model": "openai/gpt-4o", "api_base": f"{SERVER}/v1", "api_key": "none"}
ANTHROPIC = {"model": "anthropic/claude-opus-4-8", "api_base": SERVER, "api_key": "none"}


def ask(text):
    return [{"role": "user", "content": text}]


def both():
    for where in (OPENAI, ANTHROPIC):
        answer = litellm.completion(messages=ask("Hello there"), **where)
        print("whole", answer.model_dump_json())
        for chunk in litellm.completion(messages=ask("Please tell a story"), stream=True, **where):
            print("chunk", chunk.model_dump_json())
        asked = ask("What is the weather in Lisbon?")
        answer = litellm.completion(messages=asked, tools=[TOOL], **where)
        print("tools", answer.model_dump_json())


async def from_tasks():
    for where in (OPENAI, ANTHROPIC):
        asked = (litellm.acompletion(messages=ask(f"Hello {n}"), **where) for n in range(3))
        for answer in await asyncio.gather(*asked):
            print("task", answer.model_dump_json())
        stream = await litellm.acompletion(
            messages=ask("Please tell a story"), stream=True, **where
        )
        async for chunk in stream:
            print("async chunk", chunk.model_dump_json())


both()
asyncio.run(from_tasks())
