"""What Ollama's SDK asks, and what it makes of an answer."""

from __future__ import annotations

from typing import Any

from tests.frameworks.lenses.scene import TOOL, Saw, Server, known

__all__ = ["ollama_streamed"]


def _ollama_arguments() -> dict[str, Any]:
    return {
        "model": "llama-x",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "weather", "arguments": {}}}],
            },
            {"role": "tool", "tool_name": "weather", "content": "rain"},
        ],
        "tools": [{"type": "function", "function": TOOL}],
    }


def ollama_streamed(server: Server) -> Saw:
    import ollama

    told = list(ollama.Client(host=server.url).chat(**_ollama_arguments(), stream=True))
    last = told[-1]
    calls = [call for one in told for call in one.message.tool_calls or ()]
    thought = "".join(one.message.thinking or "" for one in told)
    return Saw(
        text="".join(one.message.content or "" for one in told),
        calls=[("", "", call.function.name, dict(call.function.arguments), None) for call in calls],
        reason=last.done_reason,
        usage=known(input=last.prompt_eval_count, output=last.eval_count),
        reasoning=[("", thought, None)] if thought else [],
        id="",
        model=last.model,
    )
