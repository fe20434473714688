"""An agent that was written from docs/reference/protocol.md alone. Nothing of Reenact is imported."""

import base64
import hashlib
import json
import sys
import time

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

URL, KEY = sys.argv[1:3]
AGENT, ROUTE = "foreign-1", "orders"
FIELDS = (
    "v type commandId replayId tenant agentId issuedAt expiresAt nonce sourceExchangeId routeId revision "
    "modifiedPayload payloadDigest boundaries strict environmentVariables depth deadline traceParent"
).split()


def canonical(value):
    """RFC 8785, for values without fractions."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def without_defaults(payload):
    body = payload.get("body") or {}
    body = {name: one for name, one in body.items() if one not in ("", None)}
    if body.get("type") == "none":
        del body["type"]
    whole = {**payload, "body": body}
    return {name: one for name, one in whole.items() if one}


def digest(payload):
    return "sha256:" + hashlib.sha256(canonical(without_defaults(payload))).hexdigest()


def route(payload):
    """What the app does: doubles the amount."""
    amount = json.loads(payload["body"]["text"])["amount"]
    text = json.dumps({"total": 2 * amount})
    return {"headers": [], "body": {"type": "json", "text": text}, "properties": {}}


def exchange(name, payload, **more):
    return {
        "exchangeId": name,
        "routeId": ROUTE,
        "revision": "r1",
        "kind": "route",
        "startedAt": int(time.time() * 1000),
        "duration": 1.5,
        "status": "completed",
        "start": payload,
        "startDigest": digest(payload),
        "result": route(payload),
        **more,
    }


def ingest(client, one):
    line = canonical({"exchange": one}) + b"\n"
    headers = {"Content-Type": "application/x-ndjson"}
    answer = client.post("/api/v1/ingest", content=line, headers=headers).raise_for_status()
    (result,) = answer.json()["results"]
    assert result["status"] == "stored", result


def verify(command, key):
    """Over the documented form: these fields, in canonical JSON."""
    message = b"reenact command 1\n" + canonical({name: command[name] for name in FIELDS})
    raw = base64.b64decode(key.split("+", 2)[2])[1:]  # the first byte names the algorithm
    signature = base64.b64decode(command["signature"])
    Ed25519PublicKey.from_public_bytes(raw).verify(signature, message)


def events(lines):
    event, data = "", ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            data = value
        elif not line and event:
            yield event, data
            event = data = ""


def main():
    headers = {"Authorization": f"Bearer {KEY}"}
    with httpx.Client(base_url=URL, headers=headers, timeout=60, trust_env=False) as client:
        registration = {
            "protocol": 1,
            "agentId": AGENT,
            "app": "shop",
            "environment": "staging",
            "name": "",
            "version": "",
            "routes": [{"routeId": ROUTE, "revision": "r1", "kind": "route", "processors": []}],
            "capabilities": ["replay"],
        }
        said = client.post("/api/v1/agents", json=registration).raise_for_status().json()
        epoch = said["epoch"]
        body = {"type": "json", "text": '{"amount": 5}', "contentType": "application/json"}
        ingest(client, exchange("ex-1", {"headers": [], "body": body, "properties": {"é": 1}}))
        print("ready", flush=True)
        path = f"/api/v1/agents/{AGENT}"
        accept = {"Accept": "text/event-stream"}
        with client.stream("GET", f"{path}/commands?epoch={epoch}", headers=accept) as stream:
            event, data = next(events(stream.iter_lines()))
        command = json.loads(data)
        assert event == command["type"] == "replay"
        verify(command, said["commandKey"])
        assert (command["tenant"], command["agentId"]) == (said["tenant"], AGENT)
        replay = f"{path}/replays/{command['replayId']}"
        for state in ("delivered", "running"):
            report = {"epoch": epoch, "state": state, "code": "", "message": ""}
            client.post(f"{replay}/state", json=report).raise_for_status()
        source = client.get(f"{replay}/source").raise_for_status().json()
        payload = command["modifiedPayload"] or source["payload"]
        assert digest(payload) == command["payloadDigest"]
        done = {
            "replayId": command["replayId"],
            "sourceExchangeId": command["sourceExchangeId"],
            "depth": command["depth"],
            "boundaries": command["boundaries"],
            "strict": command["strict"],
        }
        ingest(client, exchange("ex-2", payload, replay=done))
        client.delete(f"{path}?epoch={epoch}").raise_for_status()


main()
