"""Chat Completions: whole, streamed, with tools, and from tasks."""

import asyncio
import json

from openai import AsyncOpenAI, OpenAI

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def ask(text):
    return [{"role": "user", "content": text}]


def whole(client):
    answer = client.chat.completions.create(model="gpt-4o", messages=ask("Hello there"), seed=7)
    print("whole", answer.model_dump_json(), answer._request_id)


def streamed(client):
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model="gpt-4o", messages=ask("Please tell a story"), stream=True, stream_options=options
    )
    for number, chunk in enumerate(stream):
        print("chunk", number, chunk.model_dump_json())


def with_tools(client, question):
    messages = ask(question)
    for turn in range(3):
        answer = client.chat.completions.create(model="gpt-4o", messages=messages, tools=[TOOL])
        print("turn", turn, answer.model_dump_json())
        message = answer.choices[0].message
        if not message.tool_calls:
            return
        messages.append(message)
        for call in message.tool_calls:
            city = json.loads(call.function.arguments)["city"]
            result = {"role": "tool", "tool_call_id": call.id, "content": f"21 degrees in {city}"}
            messages.append(result)


def thinking(client):
    with client.chat.completions.stream(model="o3", messages=ask("Please think hard")) as stream:
        for event in stream:
            print("event", event.type, repr(event))
    print("final", stream.get_final_completion().model_dump_json())


async def from_tasks():
    async with AsyncOpenAI() as client:

        async def one(number):
            asked = ask(f"Hello number {number}")
            answer = await client.chat.completions.create(model="gpt-4o", messages=asked)
            print("task", number, answer.id)
            return answer

        answers = await asyncio.gather(*(one(number) for number in range(3)))
        for answer in answers:
            print("gathered", answer.model_dump_json())
        stream = await client.chat.completions.create(
            model="gpt-4o", messages=ask("Please tell a story"), stream=True
        )
        async for chunk in stream:
            print("async chunk", chunk.model_dump_json())


def main():
    with OpenAI() as client:
        whole(client)
        streamed(client)
        with_tools(client, "What is the weather in Lisbon and Porto?")
        thinking(client)
    asyncio.run(from_tasks())


main()
