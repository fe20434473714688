"""What Anthropic's SDK asks, and what it makes of an answer."""

from __future__ import annotations

from typing import Any

from tests.frameworks.lenses.scene import TOOL, Saw, Server, known

__all__ = ["anthropic_on_bedrock", "anthropic_streamed", "anthropic_whole"]

ANTHROPIC_MESSAGES: list[Any] = [
    {"role": "user", "content": "Weather?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]},
]


def _anthropic_arguments() -> dict[str, Any]:
    schema = {"name": "weather", "input_schema": TOOL["parameters"]}
    return {
        "model": "claude-x",
        "max_tokens": 100,
        "system": "Be brief.",
        "messages": ANTHROPIC_MESSAGES,
        "tools": [schema],
    }


def anthropic_saw(message: Any) -> Saw:
    usage = message.usage
    thoughts = {
        "thinking": lambda block: ("", block.thinking, block.signature),
        "redacted_thinking": lambda block: ("", "", block.data),
    }
    return Saw(
        text="".join(block.text for block in message.content if block.type == "text"),
        calls=[
            (block.id, "", block.name, block.input, None)
            for block in message.content
            if block.type == "tool_use"
        ],
        reason=message.stop_reason,
        usage=known(
            input=usage.input_tokens,
            output=usage.output_tokens,
            cacheRead=usage.cache_read_input_tokens,
            cacheWrite=usage.cache_creation_input_tokens,
        ),
        reasoning=[thoughts[one.type](one) for one in message.content if one.type in thoughts],
        id=message.id,
        model=message.model,
    )


def anthropic_streamed(server: Server) -> Saw:
    import anthropic

    client = anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0)
    with client.messages.stream(**_anthropic_arguments()) as stream:
        return anthropic_saw(stream.get_final_message())


def anthropic_whole(server: Server) -> Saw:
    import anthropic

    client = anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0)
    return anthropic_saw(client.messages.create(**_anthropic_arguments()))


def anthropic_on_bedrock(server: Server) -> Saw:
    import anthropic

    client = anthropic.AnthropicBedrock(
        aws_access_key="a", aws_secret_key="s", aws_region="eu-west-1", base_url=server.url
    )
    with client.messages.stream(**_anthropic_arguments()) as stream:
        return anthropic_saw(stream.get_final_message())
