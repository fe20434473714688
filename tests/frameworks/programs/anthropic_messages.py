"""Messages: whole, streamed, thinking, tools; from tasks and over aiohttp."""

import asyncio

from anthropic import Anthropic, AsyncAnthropic, DefaultAioHttpClient

MODEL = "claude-opus-4-8"
TOOL = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def asking(text, **more):
    return {
        "model": MODEL,
        "max_tokens": 2048,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


def whole(client):
    answer = client.messages.create(**asking("Hello there"))
    print("whole", answer.model_dump_json(), answer._request_id)


def streamed(client):
    with client.messages.stream(**asking("Please tell a story")) as stream:
        for event in stream:
            print("event", event.type, event.model_dump_json())
        print("final", stream.get_final_message().model_dump_json())


def thinking(client):
    thought = {"type": "enabled", "budget_tokens": 1024}
    answer = client.messages.create(**asking("Please think hard", thinking=thought))
    print("thought", answer.model_dump_json())
    for event in client.messages.create(
        **asking("Please think hard", thinking=thought, stream=True)
    ):
        print("thinking", event.type, event.model_dump_json())


def with_tools(client):
    messages = [{"role": "user", "content": "What is the weather in Lisbon?"}]
    for turn in range(3):
        answer = client.messages.create(
            model=MODEL, max_tokens=1024, messages=messages, tools=[TOOL]
        )
        print("turn", turn, answer.model_dump_json())
        uses = [block for block in answer.content if block.type == "tool_use"]
        if not uses:
            return
        messages.append({"role": "assistant", "content": answer.content})
        results = [
            {"type": "tool_result", "tool_use_id": use.id, "content": f"21 in {use.input['city']}"}
            for use in uses
        ]
        messages.append({"role": "user", "content": results})


async def from_tasks(client, name):
    async with client:

        async def one(number):
            answer = await client.messages.create(**asking(f"Hello number {number}"))
            print(name, number, answer.model_dump_json())

        await asyncio.gather(*(one(number) for number in range(3)))
        async with client.messages.stream(**asking("Please tell a story")) as stream:
            async for text in stream.text_stream:
                print(name, "text", repr(text))


def main():
    with Anthropic() as client:
        whole(client)
        streamed(client)
        thinking(client)
        with_tools(client)
    asyncio.run(from_tasks(AsyncAnthropic(), "tasks"))
    asyncio.run(from_tasks(AsyncAnthropic(http_client=DefaultAioHttpClient()), "aiohttp"))


main()
