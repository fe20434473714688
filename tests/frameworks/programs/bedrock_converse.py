"""boto3: Bedrock Converse, whole and streamed, with a tool."""

import json

import boto3
from botocore.exceptions import EventStreamError

MODEL = "anthropic.claude-sonnet-4-5-v1:0"
TOOL = {
    "toolSpec": {
        "name": "get_weather",
        "inputSchema": {
            "json": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
}


def ask(text):
    return {"modelId": MODEL, "messages": [{"role": "user", "content": [{"text": text}]}]}


client = boto3.client("bedrock-runtime")
answer = client.converse(**ask("Hello there"))
print("whole", json.dumps(answer, sort_keys=True))
for text in ("Please tell a story", "What is the weather in Lisbon?", "Please think hard"):
    answer = client.converse_stream(**ask(text), toolConfig={"tools": [TOOL]})
    for event in answer["stream"]:
        print("event", json.dumps(event, sort_keys=True, default=repr))
try:
    for event in client.converse_stream(**ask("Please break off"))["stream"]:
        print("event", event)
except EventStreamError as error:
    print("broke off", error)
