"""A server in trouble: refused at first and asked again; a stream that breaks off."""

import asyncio
import os

import openai
from openai import AsyncOpenAI, OpenAI

ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hello there"}]}


def again(client):
    answer = client.chat.completions.with_raw_response.create(**ASKED)
    print("after", answer.retries_taken, "more", answer.parse().model_dump_json())


def breaks_off(client):
    try:
        for number, chunk in enumerate(client.chat.completions.create(**ASKED, stream=True)):
            print("chunk", number, chunk.model_dump_json())
    except Exception as error:
        print("broke off", type(error).__name__, error, repr(error.__cause__))


async def as_a_task():
    async with AsyncOpenAI(max_retries=3) as client:
        answer = await client.chat.completions.with_raw_response.create(**ASKED)
        print("task after", answer.retries_taken, answer.headers.get("x-request-id"))


def given_up(client):
    try:
        client.with_options(max_retries=0).chat.completions.create(**ASKED)
    except openai.RateLimitError as error:
        print("given up", error.status_code, error.message, error.body, error.request_id)


WAYS = {
    "again": lambda: again(OpenAI(max_retries=3)),
    "breaks_off": lambda: breaks_off(OpenAI(max_retries=0)),
    "task": lambda: asyncio.run(as_a_task()),
    "given_up": lambda: given_up(OpenAI()),
}
WAYS[os.environ["WAY"]]()
