"""google-genai: whole, streamed, with automatic function calling; with threads and with tasks."""

import asyncio
import os

from google import genai
from google.genai import types

MODEL = "gemini-2.5-flash"


def get_weather(city: str) -> str:
    """The weather in a city."""
    print("tool", city)
    return f"21 degrees in {city}"


def main():
    options = types.HttpOptions(base_url=os.environ["GEMINI_BASE_URL"], api_version="v1beta")
    client = genai.Client(http_options=options)
    answer = client.models.generate_content(model=MODEL, contents="Hello there")
    print("whole", answer.model_dump_json(), answer.text)
    for chunk in client.models.generate_content_stream(model=MODEL, contents="Please tell a story"):
        print("chunk", chunk.model_dump_json())
    config = types.GenerateContentConfig(tools=[get_weather])
    question = "What is the weather in Lisbon?"
    answer = client.models.generate_content(model=MODEL, contents=question, config=config)
    print("tools", answer.model_dump_json())
    asyncio.run(from_tasks(client))


async def from_tasks(client):
    models = client.aio.models
    asked = (models.generate_content(model=MODEL, contents=f"Hello {n}") for n in range(3))
    for answer in await asyncio.gather(*asked):
        print("task", answer.model_dump_json())
    stream = await models.generate_content_stream(model=MODEL, contents="Please tell a story")
    async for chunk in stream:
        print("async chunk", chunk.text, chunk.usage_metadata)
    await client.aio.aclose()


main()
