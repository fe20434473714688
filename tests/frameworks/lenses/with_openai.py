"""What OpenAI's SDK asks, and what it makes of an answer."""

from __future__ import annotations

import json
from typing import Any

from tests.frameworks.lenses.scene import TOOL, Saw, Server, known

__all__ = ["chat_streamed", "chat_whole", "responses_streamed", "responses_whole"]


def _openai(server: Server) -> Any:
    import openai

    return openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0)


CHAT_MESSAGES: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
]


def chat_saw(completion: Any) -> Saw:
    choice, usage = completion.choices[0], completion.usage
    message = choice.message
    thought = getattr(message, "reasoning_content", None)  # none of OpenAI's own
    details = usage and usage.prompt_tokens_details
    spent = usage and usage.completion_tokens_details
    counts = known(
        input=usage and usage.prompt_tokens,
        output=usage and usage.completion_tokens,
        cacheRead=details and details.cached_tokens,
        reasoning=spent and spent.reasoning_tokens,
        total=usage and usage.total_tokens,
    )
    return Saw(
        text=message.content or "",
        calls=[
            (call.id, "", call.function.name, json.loads(call.function.arguments), None)
            for call in message.tool_calls or ()
        ],
        reason=choice.finish_reason,
        usage=counts,
        reasoning=[("", thought, None)] if thought else [],
        id=completion.id,
        model=completion.model,
    )


def chat_streamed(server: Server) -> Saw:
    tools: Any = [{"type": "function", "function": TOOL}]
    with _openai(server).chat.completions.stream(
        model="gpt-x",
        messages=CHAT_MESSAGES,
        tools=tools,
        stream_options={"include_usage": True},
    ) as stream:
        return chat_saw(stream.get_final_completion())


def chat_whole(server: Server) -> Saw:
    tools: Any = [{"type": "function", "function": TOOL}]
    client = _openai(server)
    return chat_saw(
        client.chat.completions.create(model="gpt-x", messages=CHAT_MESSAGES, tools=tools)
    )


def responses_saw(response: Any) -> Saw:
    usage = response.usage
    return Saw(
        text=response.output_text,
        calls=[
            (item.call_id, item.id, item.name, json.loads(item.arguments), None)
            for item in response.output
            if item.type == "function_call"
        ],
        reason=response.status,
        usage=known(
            input=usage.input_tokens,
            output=usage.output_tokens,
            cacheRead=getattr(usage.input_tokens_details, "cached_tokens", None),
            reasoning=getattr(usage.output_tokens_details, "reasoning_tokens", None),
            total=usage.total_tokens,
        ),
        reasoning=[
            (item.id, "".join(one.text for one in item.summary), item.encrypted_content)
            for item in response.output
            if item.type == "reasoning"
        ],
        id=response.id,
        model=response.model,
    )


RESPONSES_INPUT: list[Any] = [
    {"role": "user", "content": "Weather?"},
    {"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "opaque=="},
    {"type": "function_call", "id": "fc_0", "call_id": "c1", "name": "weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
]


def responses_streamed(server: Server) -> Saw:
    tools: Any = [{"type": "function", "strict": False, **TOOL}]
    client = _openai(server)
    with client.responses.stream(
        model="gpt-x", instructions="Be brief.", input=RESPONSES_INPUT, tools=tools
    ) as stream:
        return responses_saw(stream.get_final_response())


def responses_whole(server: Server) -> Saw:
    tools: Any = [{"type": "function", "strict": False, **TOOL}]
    client = _openai(server)
    return responses_saw(
        client.responses.create(
            model="gpt-x", instructions="Be brief.", input=RESPONSES_INPUT, tools=tools
        )
    )
