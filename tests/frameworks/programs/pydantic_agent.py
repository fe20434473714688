"""pydantic-ai: tools, structured output, streaming; over OpenAI and Anthropic."""

import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent


class Person(BaseModel):
    name: str
    born: int


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


async def main():
    for model in ("openai-chat:gpt-4o", "openai-responses:gpt-5", "anthropic:claude-opus-4-8"):
        agent = Agent(model, tools=[get_weather])
        result = await agent.run("What is the weather in Lisbon and Porto?")
        print("tools", result.output, result.usage)
        print("messages", result.all_messages_json().decode())
        person = await Agent(model, output_type=Person).run("Please say who wrote it")
        print("structured", repr(person.output), person.all_messages_json().decode())
        async with agent.run_stream("Please tell a story") as streamed:
            async for text in streamed.stream_text(delta=True, debounce_by=None):
                print("delta", repr(text))
            print("streamed", streamed.all_messages_json().decode())


asyncio.run(main())
print("at once", Agent("openai-chat:gpt-4o").run_sync("Hello there").output)
