"""Streams that nobody reads to the end: broken off, closed, cancelled."""

import asyncio

from openai import AsyncOpenAI, OpenAI

STORY = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Please tell a story"}],
    "stream": True,
}


def broken_off():
    with OpenAI() as client:
        for number, chunk in enumerate(client.chat.completions.create(**STORY)):
            print("chunk", number, chunk.model_dump_json())
            if number == 2:
                break
        with client.chat.completions.create(**STORY) as stream:
            print("first", next(iter(stream)).model_dump_json())
        after = client.chat.completions.create(**{**STORY, "stream": False})
        print("after", after.model_dump_json())


async def cancelled():
    async with AsyncOpenAI() as client:
        seen = asyncio.Event()

        async def read():
            async for chunk in await client.chat.completions.create(**STORY):
                print("read", chunk.model_dump_json())
                seen.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(read())
        await seen.wait()
        task.cancel()
        print("ended", await asyncio.gather(task, return_exceptions=True))


broken_off()
asyncio.run(cancelled())
