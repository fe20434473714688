"""What is tried of each framework."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CASES", "Case"]


@dataclass(frozen=True)
class Case:
    """``program`` of the folder ``programs``, with ``package`` of ``environment``.

    ``tries`` says in words what the program does. ``edit`` is a text of it, and what a user might
    write there instead: then the replay must say so.
    """

    program: str
    package: str
    environment: str
    tries: str
    edit: tuple[str, str]

    @property
    def name(self) -> str:
        """Of the test, and of its results."""
        return f"{self.program}-{self.environment}"


_STORY = ("Please tell a story", "Please tell a story of ships")
_HELLO = ("Hello there", "Hello there, you")

CASES = (
    Case("openai_chat", "openai", "httpx2", "chat: whole, streamed, tools, tasks", _HELLO),
    Case("openai_chat", "openai", "httpx", "chat: whole, streamed, tools, tasks", _HELLO),
    Case(
        "openai_responses",
        "openai",
        "httpx2",
        "responses: reasoning, streamed, tools, aiohttp",
        _STORY,
    ),
    Case(
        "openai_responses",
        "openai",
        "httpx",
        "responses: reasoning, streamed, tools, aiohttp",
        _STORY,
    ),
    Case(
        "anthropic_messages",
        "anthropic",
        "httpx2",
        "messages: streamed, thinking, tools, tasks, aiohttp",
        _STORY,
    ),
    Case("gemini", "google-genai", "httpx2", "whole, streamed, tools, aiohttp", _STORY),
    Case(
        "litellm_calls",
        "litellm",
        "httpx",
        "openai and anthropic: whole, streamed, tools, tasks",
        _STORY,
    ),
    Case(
        "langgraph_agent",
        "langgraph",
        "httpx2",
        "agents with tools, parallel branches, streams, tasks",
        _STORY,
    ),
    Case(
        "openai_agents",
        "openai-agents",
        "httpx2",
        "tools, handoff, streamed, exported traces",
        _STORY,
    ),
    Case(
        "pydantic_agent", "pydantic-ai-slim", "httpx2", "tools, structured output, streamed", _STORY
    ),
    Case(
        "smolagents_code",
        "smolagents",
        "httpx",
        "tool-calling and code-writing agents",
        ("Please run", "Now run"),
    ),
    Case(
        "bedrock_converse", "boto3", "httpx2", "converse, converse_stream, tools, reasoning", _STORY
    ),
)
"""One program per framework and environment."""
