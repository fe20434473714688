"""Which requests are model calls, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.lenses.conversation import messages, read_request, read_response
from reenact.lenses.model import Asked
from reenact.lenses.registry import TABLE, may_ask

CHAT: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES: Any = {**CHAT, "max_tokens": 9}
RESPONSES: Any = {"model": "m", "input": "hi"}
CONTENTS: Any = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
CONVERSE: Any = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
INVOKE: Any = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "hi"}],
}
GOOGLE = "https://generativelanguage.googleapis.com/v1beta"
VERTEX = "https://eu-aiplatform.googleapis.com/v1/projects/p/locations/eu/publishers"
AZURE = "https://x.openai.azure.com/openai"
BEDROCK = "https://bedrock-runtime.eu-west-1.amazonaws.com/model"

CALLS = [
    ("https://api.openai.com/v1/chat/completions", CHAT, "openai.chat openai m"),
    ("https://api.openai.com/v1/responses", RESPONSES, "openai.responses openai m"),
    (f"{AZURE}/deployments/gpt%20d/chat/completions?api-version=1", CHAT, "openai.chat azure m"),
    (f"{AZURE}/v1/responses", RESPONSES, "openai.responses azure m"),
    ("https://api.groq.com/openai/v1/chat/completions", CHAT, "openai.chat groq m"),
    ("https://api.mistral.ai/v1/chat/completions", CHAT, "openai.chat mistral m"),
    ("https://openrouter.ai/api/v1/chat/completions", CHAT, "openai.chat openrouter m"),
    ("https://api.together.xyz/v1/chat/completions", CHAT, "openai.chat together m"),
    ("https://api.deepseek.com/chat/completions", CHAT, "openai.chat deepseek m"),
    ("http://localhost:11434/v1/chat/completions", CHAT, "openai.chat ollama m"),
    ("http://localhost:8000/v1/chat/completions", CHAT, "openai.chat openai-compatible m"),
    ("https://notgroq.com/v1/chat/completions", CHAT, "openai.chat openai-compatible m"),
    ("http://[::1]:8000/v1/chat/completions", CHAT, "openai.chat openai-compatible m"),
    ("https://k:s@api.openai.com:443/v1/chat/completions", CHAT, "openai.chat openai m"),
    ("https://api.anthropic.com/v1/messages?beta=true", MESSAGES, "anthropic.messages anthropic m"),
    ("http://localhost:1/v1/messages", MESSAGES, "anthropic.messages anthropic m"),
    ("https://api.deepseek.com/anthropic/v1/messages", MESSAGES, "anthropic.messages deepseek m"),
    (
        f"{VERTEX}/anthropic/models/claude@1:rawPredict",
        INVOKE,
        "anthropic.messages google claude@1",
    ),
    (f"{BEDROCK}/us.claude%3A0/invoke", INVOKE, "anthropic.messages bedrock us.claude:0"),
    (f"{GOOGLE}/models/gemini-x:generateContent", CONTENTS, "google.generate google gemini-x"),
    (
        f"{VERTEX}/google/models/gemini-x:generateContent",
        CONTENTS,
        "google.generate google gemini-x",
    ),
    (f"{BEDROCK}/us.nova%3A0/converse", CONVERSE, "bedrock.converse bedrock us.nova:0"),
    ("http://localhost:11434/api/chat", CHAT, "ollama.chat ollama m"),
]


@pytest.mark.parametrize("url,body,expected", CALLS, ids=[url for url, _, _ in CALLS])
def test_a_model_call_is_recognised(url: str, body: Any, expected: str) -> None:
    assert may_ask("POST", url)
    asked = read_request("POST", url, body)
    assert asked is not None
    assert f"{asked.lens} {asked.provider} {asked.model}" == expected
    assert [message.text for message in messages(asked)] == ["hi"]


def test_the_model_may_be_in_the_path_of_azure() -> None:
    body: Any = {"messages": []}
    asked = read_request("POST", f"{AZURE}/deployments/gpt%20d/chat/completions?v=1", body)
    assert asked is not None
    assert asked.model == "gpt d"


OTHERS = [
    ("GET", "https://api.openai.com/v1/responses", RESPONSES),
    ("POST", "https://api.openai.com/v1/embeddings", {"model": "m", "input": "hi"}),
    ("POST", "https://api.openai.com/v1/responses/resp_1/cancel", {}),
    ("POST", "https://api.openai.com/v1/responses/input_tokens", RESPONSES),
    ("POST", "https://api.openai.com/v1/threads/t/messages", {"role": "user", "content": "hi"}),
    ("POST", "https://api.anthropic.com/v1/messages/count_tokens", MESSAGES),
    ("POST", "https://api.anthropic.com/v1/messages/batches", {"requests": []}),
    ("POST", "https://chat.example/channels/1/messages", {"content": "hi"}),
    ("POST", "https://chat.example/channels/1/messages", CHAT),
    ("POST", "https://forms.example/v1/forms/1/responses", {"answers": {}}),
    ("POST", f"{GOOGLE}/models/m:countTokens", CONTENTS),
    ("POST", f"{GOOGLE}/models/m:embedContent", {"content": {}}),
    ("POST", f"{BEDROCK}/amazon.titan/invoke", {"inputText": "hi"}),
    ("POST", f"{BEDROCK}/amazon.nova/invoke", {"messages": [], "max_tokens": 1}),
    ("POST", "https://functions.example/2015-03-31/functions/f/invoke", {"a": 1}),
    ("POST", "https://units.example/converse", {"messages": []}),
    ("POST", "https://api.openai.com/v1/chat/completions", [CHAT]),
    ("POST", "https://api.openai.com/v1/chat/completions", "{}"),
    ("POST", "https://api.openai.com/v1/chat/completions", None),
    ("POST", "https://api.openai.com/v1/chat/completions", {"model": "m"}),
    ("POST", "https://api.example/?path=/chat/completions", CHAT),
    ("POST", "", {}),
]


@pytest.mark.parametrize("method,url,body", OTHERS, ids=range(len(OTHERS)))
def test_anything_else_is_not(method: str, url: str, body: Any) -> None:
    assert read_request(method, url, body) is None


@pytest.mark.parametrize("lens", TABLE, ids=lambda lens: lens.name)
def test_an_unknown_body_at_a_known_path_stays_network_traffic(lens: Any) -> None:
    assert all(read_request("POST", f"https://h/{path}", {"a": 1}) is None for path in lens.paths)


def test_the_hash_is_made_of_what_bears_on_the_answer() -> None:
    url = "https://api.openai.com/v1/chat/completions"
    tools = [{"type": "function", "function": {"name": "f"}}]
    asked = read_request(
        "POST",
        url,
        {
            **CHAT,
            "temperature": 0,
            "tools": tools,
            "tool_choice": "auto",
            "stream": True,
            "user": "u",
        },
    )
    assert asked == Asked(
        lens="openai.chat",
        provider="openai",
        model="m",
        streams=True,
        input={"messages": CHAT["messages"], "temperature": 0, "tool_choice": "auto"},
        tools=tools,
    )


def test_tools_of_converse_are_apart_from_the_choice_among_them() -> None:
    config = {"tools": [{"toolSpec": {}}], "toolChoice": {"auto": {}}}
    asked = read_request("POST", f"{BEDROCK}/m/converse", {**CONVERSE, "toolConfig": config})
    assert asked is not None
    assert asked.tools == [{"toolSpec": {}}]
    assert asked.input == {**CONVERSE, "toolConfig": {"toolChoice": {"auto": {}}}}


def test_no_tools_are_none() -> None:
    url = "https://api.openai.com/v1/chat/completions"
    for body in (CHAT, {**CHAT, "tools": []}, {**CHAT, "tools": None}):
        asked = read_request("POST", url, body)
        assert asked is not None
        assert asked.tools is None


ERRORS = [
    (b'{"error":{"message":"slow down","type":"rate_limit","code":null}}', "rate_limit: slow down"),
    (b'{"type":"error","error":{"type":"overloaded_error","message":"O"}}', "overloaded_error: O"),
    (
        b'{"error":{"code":429,"message":"M","status":"RESOURCE_EXHAUSTED"}}',
        "RESOURCE_EXHAUSTED: M",
    ),
    (b'[{"error":{"code":429,"message":"M","status":"X"}}]', "X: M"),
    (b'{"message":"no access"}', "no access"),
    (b'{"Message":"no access"}', "no access"),
    (b'{"detail":"not found"}', "not found"),
    (b'{"error":"model not found"}', "model not found"),
    (b"<html>502</html>", "HTTP 502"),
    (b"", "HTTP 502"),
]


@pytest.mark.parametrize("body,expected", ERRORS, ids=range(len(ERRORS)))
def test_errors_say_what_the_provider_said(body: bytes, expected: str) -> None:
    answered = read_response("openai.chat", 502, "application/json", body)
    assert answered is not None
    assert (answered.error, answered.complete, answered.text) == (expected, True, "")


def test_what_is_no_answer_of_an_api_has_no_meaning() -> None:
    assert read_response("openai.chat", 200, "text/html", b"<html>") is None
    assert read_response("none", 200, "application/json", b"{}") is None


def test_names_and_paths_are_unique() -> None:
    paths = [path for lens in TABLE for path in lens.paths]
    assert len({lens.name for lens in TABLE}) == len(TABLE)
    assert len(set(paths)) == len(paths)
