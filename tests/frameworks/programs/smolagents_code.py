"""smolagents: a tool-calling agent and one that writes code, over an OpenAI-compatible server."""

import os

from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool


@tool
def get_weather(city: str) -> str:
    """The weather in a city.

    Args:
        city: Its name.
    """
    return f"21 degrees in {city}"


model = OpenAIServerModel("llama-3", api_base=os.environ["OPENAI_BASE_URL"], api_key="none")
caller = ToolCallingAgent(tools=[get_weather], model=model, max_steps=2)
print("said", caller.run("What is the weather in Lisbon?"))
coder = CodeAgent(tools=[], model=model, max_steps=2)
print("said", coder.run("Please run the numbers"))
for agent in (caller, coder):
    for step in agent.memory.get_full_steps():
        print("step", step)
