"""openai-agents: tools, a handoff, streamed; its trace exporter talks to a server of its own."""

import asyncio
import os

from agents import Agent, Runner, function_tool, set_trace_processors
from agents.tracing import get_trace_provider
from agents.tracing.processors import BackendSpanExporter, BatchTraceProcessor


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


specialist = Agent(name="specialist", instructions="You know things.", model="gpt-5")
assistant = Agent(
    name="assistant",
    instructions="You help.",
    model="gpt-5",
    tools=[get_weather],
    handoffs=[specialist],
)


def show(result):
    print("output", result.final_output, result.last_agent.name)
    for response in result.raw_responses:
        print("response", response)
    for item in result.new_items:
        print("item", item.type, item.raw_item)


async def main():
    exporter = BackendSpanExporter(endpoint=os.environ["TRACES"], api_key="none")
    set_trace_processors([BatchTraceProcessor(exporter)])
    show(await Runner.run(assistant, "What is the weather in Lisbon and Porto?"))
    show(await Runner.run(assistant, "Please ask a specialist"))
    streamed = Runner.run_streamed(assistant, "Please tell a story")
    async for event in streamed.stream_events():
        if event.type == "raw_response_event":
            print("event", event.data.model_dump_json())
    show(streamed)
    get_trace_provider().shutdown()


asyncio.run(main())
