"""The same prompt five times at once: tasks, threads, and both clients."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from openai import AsyncOpenAI, OpenAI

SAME = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello there"}]}


async def tasks():
    async with AsyncOpenAI() as client:

        async def one(number):
            answer = await client.chat.completions.create(**SAME)
            print("arrived", number, answer.id)
            return answer.id

        print("tasks", await asyncio.gather(*(one(number) for number in range(5))))
        streams = [client.chat.completions.create(**SAME, stream=True) for _ in range(5)]
        for number, stream in enumerate(await asyncio.gather(*streams)):
            print("stream", number, [chunk.id async for chunk in stream])


def threads():
    with OpenAI() as client, ThreadPoolExecutor(5) as pool:
        asked = [pool.submit(client.chat.completions.create, **SAME) for _ in range(5)]
        print("threads", [one.result().id for one in asked])


asyncio.run(tasks())
threads()
