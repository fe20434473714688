"""Conversations as they are sent, for people to read."""

from __future__ import annotations

from typing import Any

from reenact.lenses.conversation import messages, read_request
from reenact.lenses.model import Message, Reasoning, ToolOutcome, ToolUse

PICTURE = "data:image/png;base64,AAAA"
WEATHER = ToolUse(id="c1", name="weather", arguments={"n": 1})
RAIN = ToolOutcome(id="c1", text="rain")


def _said(url: str, body: dict[str, Any]) -> list[Message]:
    asked = read_request("POST", url, body)
    assert asked is not None
    return list(messages(asked))


def test_chat() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"n":1}'}}
    picture = {"type": "image_url", "image_url": {"url": PICTURE}}
    sound = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
    link = {"type": "image_url", "image_url": {"url": "https://h/x.png"}}
    sent = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look."}, picture, sound, link]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "Hm."},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "rain"}]},
        {"role": "assistant", "refusal": "No."},
    ]
    said = _said("https://h/v1/chat/completions", {"model": "m", "messages": sent})
    described = ("image_url image/png;base64 (4 characters)", "input_audio (2 characters)")
    assert said == [
        Message(role="developer", text="Be brief."),
        Message(role="user", text="Look.", attached=(*described, "image_url https://h/x.png")),
        Message(role="assistant", tool_calls=(WEATHER,), reasoning=(Reasoning(text="Hm."),)),
        Message(role="tool", results=(RAIN,)),
        Message(role="assistant", text="No."),
    ]


def test_responses() -> None:
    sent = [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look."},
                {"type": "input_image", "image_url": PICTURE},
                {"type": "input_file", "file_id": "file-1"},
            ],
        },
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "enc=="},
        {
            "type": "function_call",
            "id": "fc",
            "call_id": "c1",
            "name": "weather",
            "arguments": '{"n":1}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {"type": "item_reference", "id": "msg_1"},
    ]
    body = {"model": "m", "instructions": "Be brief.", "input": sent}
    call = ToolUse(id="c1", item="fc", name="weather", arguments={"n": 1})
    described = ("input_image image/png;base64 (4 characters)", "input_file file-1")
    assert _said("https://h/v1/responses", body) == [
        Message(role="system", text="Be brief."),
        Message(role="user", text="Look.", attached=described),
        Message(role="assistant", reasoning=(Reasoning(id="rs", opaque="enc=="),)),
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", results=(RAIN,)),
        Message(role="item_reference"),
    ]


def test_responses_with_a_text() -> None:
    said = _said("https://h/v1/responses", {"model": "m", "input": "Hi"})
    assert said == [Message(role="user", text="Hi")]


def test_anthropic() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    picture = {"type": "image", "source": source}
    sent = [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, picture]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "sig=="},
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {"n": 1}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
                {
                    "type": "tool_result",
                    "tool_use_id": "c2",
                    "content": [picture],
                    "is_error": True,
                },
            ],
        },
    ]
    system = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    body = {"model": "m", "max_tokens": 9, "system": system, "messages": sent}
    described = ("image image/png (4 characters)",)
    thought = Reasoning(text="Hm.", opaque="sig==")
    failed = ToolOutcome(id="c2", failed=True)
    assert _said("https://h/v1/messages", body) == [
        Message(role="system", text="Be brief."),
        Message(role="user", text="Look.", attached=described),
        Message(role="assistant", tool_calls=(WEATHER,), reasoning=(thought,)),
        Message(role="user", results=(RAIN, failed), attached=described),
    ]


def test_gemini() -> None:
    call = {"functionCall": {"id": "c1", "name": "weather", "args": {"n": 1}}}
    told = {"functionResponse": {"id": "c1", "name": "weather", "response": {"result": "rain"}}}
    other = {"functionResponse": {"name": "weather", "response": {"mm": 3}}}
    fault = {"functionResponse": {"name": "weather", "response": {"error": "no"}}}
    file = {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/x.pdf"}}
    body = {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Look."}, file]},
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [told, other, fault]},
        ],
    }
    results = (
        ToolOutcome(id="c1", name="weather", text="rain"),
        ToolOutcome(name="weather", text='{"mm":3}'),
        ToolOutcome(name="weather", text="no", failed=True),
    )
    assert _said("https://h/v1beta/models/m:generateContent", body) == [
        Message(role="system", text="Be brief."),
        Message(role="user", text="Look.", attached=("application/pdf gs://b/x.pdf",)),
        Message(role="model", tool_calls=(WEATHER,)),
        Message(role="user", results=results),
    ]


def test_converse() -> None:
    thought = {"reasoningText": {"text": "Hm.", "signature": "sig=="}}
    content = [{"json": {"mm": 3}}, {"text": "rain"}]
    body = {
        "system": [{"text": "Be brief."}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"text": "Look."},
                    {"image": {"format": "png", "source": {"bytes": "AAAA"}}},
                    {"document": {"format": "pdf", "name": "x", "source": {"bytes": "AA"}}},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": thought},
                    {"toolUse": {"toolUseId": "c1", "name": "weather", "input": {"n": 1}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "c1", "content": content, "status": "error"}}
                ],
            },
        ],
    }
    described = ("image png (4 characters)", "document pdf x (2 characters)")
    result = ToolOutcome(id="c1", text='rain\n{"mm":3}', failed=True)
    assert _said("https://h/model/m/converse", body) == [
        Message(role="system", text="Be brief."),
        Message(role="user", text="Look.", attached=described),
        Message(
            role="assistant",
            tool_calls=(WEATHER,),
            reasoning=(Reasoning(text="Hm.", opaque="sig=="),),
        ),
        Message(role="user", results=(result,)),
    ]


def test_ollama() -> None:
    call = {"id": "c1", "function": {"name": "weather", "arguments": {"n": 1}}}
    sent = [
        {"role": "user", "content": "Look.", "images": ["AAAA"]},
        {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [call]},
        {"role": "tool", "tool_name": "weather", "content": "rain"},
    ]
    assert _said("http://h/api/chat", {"model": "m", "messages": sent}) == [
        Message(role="user", text="Look.", attached=("image (4 characters)",)),
        Message(role="assistant", tool_calls=(WEATHER,), reasoning=(Reasoning(text="Hm."),)),
        Message(role="tool", results=(ToolOutcome(name="weather", text="rain"),)),
    ]
