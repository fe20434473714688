"""What Google's SDK asks, and what it makes of an answer."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from tests.frameworks.lenses.scene import Saw, Server, known

__all__ = ["google_streamed", "google_whole"]


def _google(server: Server) -> Any:
    from google import genai

    return genai.Client(api_key="k", http_options={"base_url": server.url, "api_version": "v1beta"})


def _google_arguments() -> dict[str, Any]:
    from google.genai import types

    return {
        "model": "gemini-x",
        "contents": [
            types.Content(role="user", parts=[types.Part.from_text(text="Weather?")]),
            types.Content(
                role="model", parts=[types.Part.from_function_call(name="weather", args={})]
            ),
            types.Content(
                role="user",
                parts=[
                    types.Part.from_function_response(name="weather", response={"result": "rain"})
                ],
            ),
        ],
        "config": types.GenerateContentConfig(
            system_instruction="Be brief.",
            tools=[types.Tool(function_declarations=[{"name": "weather"}])],
        ),
    }


def google_saw(responses: list[Any]) -> Saw:
    last = responses[-1]
    parts = [part for one in responses for part in one.candidates[0].content.parts]
    usage = last.usage_metadata
    assert "".join(one.text or "" for one in responses) == "".join(
        part.text for part in parts if part.text and not part.thought
    )
    calls = [part for part in parts if part.function_call]
    thought = "".join(part.text for part in parts if part.thought)
    return Saw(
        text="".join(part.text for part in parts if part.text and not part.thought),
        calls=[
            (
                part.function_call.id or "",
                "",
                part.function_call.name,
                part.function_call.args,
                part.thought_signature and b64encode(part.thought_signature).decode(),
            )
            for part in calls
        ],
        reason=last.candidates[0].finish_reason.value,
        usage=known(
            input=usage.prompt_token_count,
            output=usage.candidates_token_count,
            cacheRead=usage.cached_content_token_count,
            reasoning=usage.thoughts_token_count,
            total=usage.total_token_count,
        ),
        reasoning=[("", thought, None)] if thought else [],
        id=last.response_id or "",
        model=last.model_version or "",
    )


def google_streamed(server: Server) -> Saw:
    client = _google(server)
    return google_saw(list(client.models.generate_content_stream(**_google_arguments())))


def google_whole(server: Server) -> Saw:
    client = _google(server)
    return google_saw([client.models.generate_content(**_google_arguments())])
