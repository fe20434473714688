"""Agent runs over the clients of the SDKs themselves, against a server that nobody here wrote."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("tests.frameworks") is None:
    pytest.skip("the environments of the SDKs are not there", allow_module_level=True)

from tests.frameworks.environments import build
from tests.frameworks.servers import _aimock, _llmock, aimock, available, llmock
from tests.frameworks.trying import Trial

pytestmark = pytest.mark.soak_only  # it installs the SDKs

__all__ = ["_aimock", "_llmock", "aimock", "llmock"]

SHOWN = '''
import asyncio
import os

import msgspec

from reenact.agents import (
    AnthropicMessages, Backoff, OpenAIChat, OpenAIResponses, run_agent, run_agent_async
)
from reenact.tools.tool import tool


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"21 degrees in {city}, says {os.urandom(4).hex()}"


def show(result):
    print(result.status, result.stop_reason, result.output, result.usage.to_json())
    print(result.error and (result.error.kind, result.error.message))
    print(msgspec.json.encode([result.attempts, result.messages]).decode())


def seen(event):
    print(event.seq, event.stream, sorted(event.data.items()))


BOTH = "What is the weather in Lisbon and Porto?"
'''

OPENAI = (
    SHOWN
    + """
from openai import AsyncOpenAI, OpenAI

with OpenAI(max_retries=0) as client:
    for stream in (False, True):
        for make in (OpenAIChat, OpenAIResponses):
            model = make(client, "gpt-5", stream=stream)
            show(run_agent(model, BOTH, tools=[get_weather], observers=[seen]))
            show(run_agent(model, "Please think hard", observers=[seen]))


async def main():
    async with AsyncOpenAI(max_retries=0) as client:
        for stream in (False, True):
            for make in (OpenAIChat, OpenAIResponses):
                model = make(client, "gpt-5", stream=stream)
                both = (run_agent_async(model, BOTH, tools=[get_weather]) for _ in range(2))
                for result in await asyncio.gather(*both):
                    show(result)


asyncio.run(main())
"""
)

ANTHROPIC = (
    SHOWN
    + """
from anthropic import Anthropic, AsyncAnthropic

with Anthropic(max_retries=0) as client:
    for stream in (False, True):
        model = AnthropicMessages(client, "claude-5", stream=stream)
        show(run_agent(model, BOTH, tools=[get_weather], observers=[seen]))
        show(run_agent(model, "Please think hard", observers=[seen]))


async def main():
    async with AsyncAnthropic(max_retries=0) as client:
        for stream in (False, True):
            model = AnthropicMessages(client, "claude-5", stream=stream)
            show(await run_agent_async(model, BOTH, tools=[get_weather]))


asyncio.run(main())
"""
)

TROUBLED = (
    SHOWN
    + """
from openai import OpenAI

with OpenAI(max_retries=0) as client:
    quick = Backoff(retries=3, delay=0.01, most=0.02)
    show(run_agent(OpenAIChat(client, "gpt-4o"), "hello", backoff=quick, observers=[seen]))
"""
)


def _trial(folder: Path, address: str, program: str) -> tuple[Trial, Path]:
    with available():
        python = build("httpx2")
    place = folder / "agent.py"
    place.write_text(program, "utf-8")
    return Trial(python, folder, address), place


def _check(trial: Trial, program: Path, server: Any) -> str:
    recorded = trial.record(program)
    asked = len(server.journal())
    replayed = trial.replay(program)
    assert (recorded.code, replayed.code) == (0, 0), recorded.err + replayed.err
    assert replayed.out == recorded.out
    assert ", 0 live, 0 unused" in replayed.summary
    assert len(server.journal()) == asked > 0, "the replay asked the model"
    return recorded.out.decode()


@pytest.mark.parametrize("program", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_runs_over_an_sdk_are_replayed(aimock: Any, tmp_path: Path, program: str) -> None:
    trial, place = _trial(tmp_path, aimock.address, program)
    out = _check(trial, place, aimock)
    statuses = [line.split()[0] for line in out.splitlines() if "'total':" in line[-40:]]
    assert out.count("21 degrees in Lisbon, 18 degrees in Porto.") >= 4
    assert "error" not in statuses


def test_retries_after_429_are_attempts(llmock: Any, tmp_path: Path) -> None:
    llmock.reset({"type": "fail", "status": 429, "times": 2})
    trial, place = _trial(tmp_path, llmock.address, TROUBLED)
    out = _check(trial, place, llmock)
    assert out.count('"endedBy":"retriable"') == 2
    calls = [event.data for event in trial.events() if event.type == "llm_request"]
    assert [one["attempt"] for one in calls] == [0, 1, 2]
