"""The Responses API: whole, streamed, reasoning, tools; over aiohttp as well."""

import asyncio
import json

from openai import AsyncOpenAI, DefaultAioHttpClient, OpenAI

TOOL = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def whole(client):
    answer = client.responses.create(model="gpt-5", input="Please think hard")
    print("whole", answer.model_dump_json(), answer.output_text)


def streamed(client):
    for event in client.responses.create(model="gpt-5", input="Please tell a story", stream=True):
        print("event", event.type, event.model_dump_json())


def with_tools(client):
    items = [{"role": "user", "content": "What is the weather in Lisbon?"}]
    for turn in range(3):
        answer = client.responses.create(model="gpt-5", input=items, tools=[TOOL])
        print("turn", turn, answer.model_dump_json())
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return
        items += answer.output
        for call in calls:
            city = json.loads(call.arguments)["city"]
            output = {"type": "function_call_output", "call_id": call.call_id}
            items.append({**output, "output": f"21 degrees in {city}"})


async def over_aiohttp():
    async with AsyncOpenAI(http_client=DefaultAioHttpClient()) as client:
        answer = await client.responses.create(model="gpt-5", input="Hello over aiohttp")
        print("aiohttp", answer.model_dump_json())
        stream = await client.responses.create(
            model="gpt-5", input="Please tell a story", stream=True
        )
        async for event in stream:
            print("aiohttp event", event.type, event.model_dump_json())


def main():
    with OpenAI() as client:
        whole(client)
        streamed(client)
        with_tools(client)
    asyncio.run(over_aiohttp())


main()
