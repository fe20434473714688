"""A server by hand: pages, answers in another order, lines that are no messages."""

import json
import os
import sys

PAGES = {None: (["a", "b"], "1"), "1": (["c"], "2"), "2": (["d"], None)}


def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def listed(params):
    names, cursor = PAGES[params.get("cursor")]
    schema = {"type": "object"}
    found = {"tools": [{"name": name, "inputSchema": schema} for name in names]}
    return {**found, "nextCursor": cursor} if cursor else found


with open(os.environ["JOURNAL"], "a", encoding="utf-8") as journal:
    journal.write("start\n")
waiting = []
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked.get("method"), asked.get("params") or {}
    if method == "initialize":
        version = params["protocolVersion"]
        info = {"name": "odd", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        say(id=asked["id"], result=result)
    elif method == "tools/list":
        say(id=asked["id"], result=listed(params))
    elif method == "tools/call":
        waiting.append(asked)
        if params["name"] == "b":  # the last of them: all are answered, this one first
            print("this is no message", flush=True)
            say(id=4711, result={})
            for one in reversed(waiting):
                text = f"{one['params']['name']} {one['params']['arguments']}"
                say(id=one["id"], result={"content": [{"type": "text", "text": text}]})
            waiting = []
