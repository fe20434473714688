"""One question, asked through the framework that is named: nothing in it depends on the hour."""

import asyncio
import os
import sys

ASKED = "Hello there"


def ask_openai():
    from openai import OpenAI

    with OpenAI() as client:
        messages = [{"role": "user", "content": ASKED}]
        return client.chat.completions.create(model="gpt-4o", messages=messages).model_dump_json()


def ask_anthropic():
    from anthropic import Anthropic

    with Anthropic() as client:
        messages = [{"role": "user", "content": ASKED}]
        return client.messages.create(
            model="claude-opus-4-8", max_tokens=64, messages=messages
        ).model_dump_json()


def ask_litellm():
    import litellm

    messages = [{"role": "user", "content": ASKED}]
    return litellm.completion(model="openai/gpt-4o", messages=messages).model_dump_json()


def ask_langchain():
    from langchain_openai import ChatOpenAI

    return repr(ChatOpenAI(model="gpt-4o").invoke(ASKED).content)


def ask_agents():
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("gpt-4o", AsyncOpenAI())
    return asyncio.run(Runner.run(Agent(name="a", model=model), ASKED)).final_output


def ask_pydantic():
    from pydantic_ai import Agent

    return Agent("openai-chat:gpt-4o").run_sync(ASKED).output


def ask_smolagents():
    from smolagents import OpenAIServerModel

    model = OpenAIServerModel("gpt-4o", api_base=os.environ["OPENAI_BASE_URL"], api_key="none")
    return model([{"role": "user", "content": ASKED}]).content


print(globals()[f"ask_{sys.argv[1]}"]())
