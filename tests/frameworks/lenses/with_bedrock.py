"""What boto3 asks, and what it makes of an answer."""

from __future__ import annotations

import json
from typing import Any

from tests.frameworks.lenses.scene import TOOL, Saw, Server, known

__all__ = ["converse_streamed", "converse_whole"]


def _bedrock(server: Server) -> Any:
    import boto3

    return boto3.client(
        "bedrock-runtime",
        endpoint_url=server.url,
        region_name="eu-west-1",
        aws_access_key_id="a",
        aws_secret_access_key="s",
    )


def _converse_arguments() -> dict[str, Any]:
    schema = {"json": TOOL["parameters"]}
    return {
        "modelId": "us.anthropic.claude-x:0",
        "system": [{"text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"text": "Weather?"}]},
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "c1", "name": "weather", "input": {}}}],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "rain"}]}}],
            },
        ],
        "toolConfig": {"tools": [{"toolSpec": {"name": "weather", "inputSchema": schema}}]},
    }


def converse_saw(content: list[Any], reason: str, usage: Any) -> Saw:
    thoughts = [
        one["reasoningContent"]["reasoningText"] for one in content if "reasoningContent" in one
    ]
    calls = [one["toolUse"] for one in content if "toolUse" in one]
    return Saw(
        text="".join(one.get("text", "") for one in content),
        calls=[(call["toolUseId"], "", call["name"], call["input"], None) for call in calls],
        reason=reason,
        usage=known(
            input=usage["inputTokens"],
            output=usage["outputTokens"],
            cacheRead=usage.get("cacheReadInputTokens"),
            cacheWrite=usage.get("cacheWriteInputTokens"),
            total=usage["totalTokens"],
        ),
        reasoning=[("", one["text"], one.get("signature")) for one in thoughts],
        id="",
        model="",
    )


def converse_whole(server: Server) -> Saw:
    told = _bedrock(server).converse(**_converse_arguments())
    return converse_saw(told["output"]["message"]["content"], told["stopReason"], told["usage"])


def converse_streamed(server: Server) -> Saw:
    """boto3 gives events; putting them together is up to the program."""
    blocks: dict[int, dict[str, Any]] = {}
    reason, usage = "", {}
    for one in _bedrock(server).converse_stream(**_converse_arguments())["stream"]:
        if "contentBlockStart" in one:
            start = one["contentBlockStart"]
            blocks[start["contentBlockIndex"]] = {
                "toolUse": {**start["start"]["toolUse"], "input": ""}
            }
        elif "contentBlockDelta" in one:
            part = one["contentBlockDelta"]
            _grow(blocks.setdefault(part["contentBlockIndex"], {}), part["delta"])
        elif "messageStop" in one:
            reason = one["messageStop"]["stopReason"]
        elif "metadata" in one:
            usage = one["metadata"]["usage"]
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"])
    return converse_saw([blocks[at] for at in sorted(blocks)], reason, usage)


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if "text" in delta:
        block["text"] = block.get("text", "") + delta["text"]
    elif "toolUse" in delta:
        block["toolUse"]["input"] += delta["toolUse"]["input"]
    elif "reasoningContent" in delta:
        thought = block.setdefault("reasoningContent", {"reasoningText": {}})["reasoningText"]
        for name, piece in delta["reasoningContent"].items():
            thought[name] = thought.get(name, "") + piece
