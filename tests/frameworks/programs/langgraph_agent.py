"""langgraph over langchain-openai and langchain-anthropic: a graph that calls tools, and one whose
branches run side by side."""

import asyncio
import operator
from typing import Annotated, TypedDict

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}"


class State(TypedDict):
    said: Annotated[list, operator.add]


def branch(name, model):
    def node(state):
        answer = model.invoke(f"Hello from {name}")
        return {"said": [(name, answer.id, answer.content, answer.usage_metadata)]}

    return node


def side_by_side(model):
    graph = StateGraph(State)
    for name in ("left", "middle", "right"):
        graph.add_node(name, branch(name, model))
        graph.add_edge(START, name)
        graph.add_edge(name, END)
    return graph.compile()


def main():
    for model in (ChatOpenAI(model="gpt-4o"), ChatAnthropic(model="claude-opus-4-8")):
        agent = create_agent(model, [get_weather])
        question = {"messages": [("user", "What is the weather in Lisbon and Porto?")]}
        for step in agent.stream(question, stream_mode="updates"):
            print("step", step)
        for message in model.stream("Please tell a story"):
            print("chunk", repr(message))
        print("branches", side_by_side(model).invoke({"said": []}))
        asyncio.run(from_tasks(agent, model))


async def from_tasks(agent, model):
    question = {"messages": [("user", "What is the weather in Lisbon?")]}
    async for mode, part in agent.astream(question, stream_mode=["updates", "messages"]):
        print("async", mode, part)
    print("branches", await side_by_side(model).ainvoke({"said": []}))


main()
