"""Programs as they were recorded and as they are now: each changed in one way, with the cause that has to
be named first."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx

import reenact

__all__ = ["CASES", "Changed", "Program", "World"]

MODEL = "https://api.openai.com/v1/chat/completions"
CLAUDE = "https://api.anthropic.com/v1/messages"
SHOP = "https://shop.example"
Program = Callable[[httpx.Client], Any]


class World(httpx.BaseTransport):
    """Answers whatever it is asked; ``/broken`` fails."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        if request.url.path.endswith("/broken"):
            return httpx.Response(503)
        message = {"role": "assistant", "content": "Yes."}
        body = {"model": "gpt-5", "choices": [{"message": message, "finish_reason": "stop"}]}
        return httpx.Response(200, json=body)


@dataclass(frozen=True)
class Changed:
    """``first`` is the cause that comes first, ``also`` those that may come with it. ``settles``: there is
    one policy that settles it; ``by_rule``: so does the first rule of the first cause."""

    name: str
    then: Program
    now: Program
    first: str
    also: frozenset[str] = field(default_factory=frozenset)
    settles: bool = False
    by_rule: bool = False


def chat(*messages: tuple[str, str], **settings: Any) -> Program:
    """One call of a model."""

    def program(client: httpx.Client) -> Any:
        said = [{"role": role, "content": text} for role, text in messages]
        return client.post(MODEL, json={"model": "gpt-5", "messages": said, **settings}).json()

    return program


def ask(text: str, **settings: Any) -> Program:
    return chat(("system", "You are kind."), ("user", text), **settings)


def post(body: Any, path: str = "/orders", **options: Any) -> Program:
    return lambda client: client.post(f"{SHOP}{path}", json=body, **options)


def get(*paths: str) -> Program:
    def program(client: httpx.Client) -> None:
        for path in paths:
            client.get(f"{SHOP}{path}")

    return program


def tools(*names: str, description: str = "Finds things.") -> list[Any]:
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    return [
        {
            "type": "function",
            "function": {"name": name, "description": description, "parameters": parameters},
        }
        for name in names
    ]


def claude(system: str) -> Program:
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "system": system,
        "messages": [{"role": "user", "content": "Warm?"}],
    }
    return lambda client: client.post(CLAUDE, json=body)


@reenact.boundary
def look_up(city: str, days: int = 1) -> str:
    return f"{city}: 21"


def looked_up(city: str, days: int = 1) -> Program:
    return lambda _client: look_up(city, days)


def started(word: str) -> Program:
    return lambda _client: subprocess.run([sys.executable, "-c", "", word], check=True)


def in_thread(inner: Program) -> Program:
    def program(client: httpx.Client) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(inner, client).result()

    return program


def clock(times: int) -> Program:
    return lambda _client: [reenact.clock.time() for _ in range(times)]


def _long(end: str) -> str:
    return "Please answer as well as you can. " * 400 + end


CASES = [
    Changed("prompt", ask("Is it warm in Bern?"), ask("Is it cold in Bern?"), "prompt"),
    Changed("long prompt", ask(_long("Be brief.")), ask(_long("Be exact.")), "prompt"),
    Changed("system prompt", claude("You are kind."), claude("You are strict."), "prompt"),
    Changed(
        "one more message",
        chat(("user", "Hi"), ("user", "Warm?")),
        chat(("user", "Hi"), ("user", "Please be brief."), ("user", "Warm?")),
        "prompt",
    ),
    Changed(
        "an answer that is kept otherwise",
        chat(("user", "Hi"), ("assistant", "Hello there."), ("user", "Warm?")),
        chat(("user", "Hi"), ("assistant", "Hello."), ("user", "Warm?")),
        "history",
    ),
    Changed(
        "a tool without a boundary",
        chat(("user", "Warm?"), ("tool", "21 degrees and dry")),
        chat(("user", "Warm?"), ("tool", "18 degrees and wet")),
        "tool_result",
    ),
    Changed(
        "a tool described otherwise",
        ask("Hi", tools=tools("search")),
        ask("Hi", tools=tools("search", description="Finds everything.")),
        "tool_definition",
    ),
    Changed(
        "a tool renamed",
        ask("Hi", tools=tools("search", "book")),
        ask("Hi", tools=tools("find", "book")),
        "tool_definition",
    ),
    Changed(
        "a new tool",
        ask("Hi", tools=tools("search")),
        ask("Hi", tools=tools("search", "book")),
        "tool_definition",
    ),
    Changed(
        "tools in another order",
        ask("Hi", tools=tools("search", "book")),
        ask("Hi", tools=tools("book", "search")),
        "unordered",
        settles=True,
        by_rule=True,
    ),
    Changed("another model", ask("Hi"), ask("Hi", model="gpt-5-mini"), "model"),
    Changed(
        "another temperature",
        ask("Hi", temperature=0.1),
        ask("Hi", temperature=0.9),
        "setting",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "a time in the prompt",
        ask("It is 2026-11-16T09:12:44Z. Warm?"),
        ask("It is 2026-11-17T10:02:01Z. Warm?"),
        "clock",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "a time at the end of a long prompt",
        ask(_long("It is 2026-11-16T09:12:44Z.")),
        ask(_long("It is 2026-11-17T10:02:01Z.")),
        "clock",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "a date in the prompt",
        claude("Today is Monday, November 16, 2026."),
        claude("Today is Tuesday, November 17, 2026."),
        "clock",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "seconds since the epoch",
        post({"sentOn": 1794855152}),
        post({"sentOn": 1794941552}),
        "clock",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "seconds since the epoch in a prompt",
        ask("1794857832.9240441 Warm?"),
        ask("1794857833.0864246 Warm?"),
        "clock",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "a uuid",
        post({"order": "6f1c1f9e-98a2-4c6e-8b4e-0c8b9a7d1e10"}),
        post({"order": "a1c9d8e7-12b3-4c5d-9e8f-77aa66bb55cc"}),
        "chance",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "a random id",
        post({"requestId": "r-4k9x"}),
        post({"requestId": "r-81zq"}),
        "chance",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "a time and a uuid in one text",
        ask("At 2026-11-16T09:12:44Z, run 6f1c1f9e-98a2-4c6e-8b4e-0c8b9a7d1e10."),
        ask("At 2026-11-17T10:00:00Z, run a1c9d8e7-12b3-4c5d-9e8f-77aa66bb55cc."),
        "clock",
        frozenset({"chance"}),
        settles=True,
    ),
    Changed(
        "a folder for temporary files",
        ask("Read /tmp/tmpab12cd/notes.txt, please."),
        ask("Read /tmp/tmpzz98yx/notes.txt, please."),
        "tmp_path",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "the repr of an object",
        post({"of": "<Agent object at 0x7f3a2b1c4d50>"}),
        post({"of": "<Agent object at 0x7fee90ab1230>"}),
        "address",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "the home of another user",
        post({"file": "/home/ada/data.csv"}),
        post({"file": "/home/bob/data.csv"}),
        "host",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "a local server on another port",
        lambda client: client.get("http://127.0.0.1:40001/status"),
        lambda client: client.get("http://127.0.0.1:40017/status"),
        "port",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "another version in a text",
        post({"agent": "shopper/1.4.0"}),
        post({"agent": "shopper/1.5.2"}),
        "version",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "white space",
        ask("Is it warm?\n\nSay so."),
        ask("Is it warm?\nSay so. "),
        "whitespace",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "accents", ask("Zu\u0308rich?"), ask("Z\u00fcrich?"), "unicode", settles=True, by_rule=True
    ),
    Changed(
        "JSON in a text",
        ask(json.dumps({"a": 1, "b": 2})),
        ask(json.dumps({"b": 2, "a": 1}, indent=1)),
        "serialisation",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "rounding",
        post({"price": 0.3}),
        post({"price": 0.1 + 0.2}),
        "number",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "a set as a list",
        post({"tags": ["red", "green", "blue"]}),
        post({"tags": ["blue", "red", "green"]}),
        "unordered",
        settles=True,
        by_rule=True,
    ),
    Changed(
        "a set in a text",
        ask("Colours: red, green, blue"),
        ask("Colours: red, blue, green"),
        "unordered",
        settles=True,
        by_rule=True,
    ),
    Changed("another page", get("/things?page=1"), get("/things?page=2"), "paging"),
    Changed(
        "another limit", post({"limit": 10}, "/search"), post({"limit": 20}, "/search"), "paging"
    ),
    Changed("an argument of a function", looked_up("Bern"), looked_up("Rome"), "tool_arguments"),
    Changed("another command", started("one"), started("two"), "tool_arguments"),
    Changed("more readings of the clock", clock(1), clock(2), "more_draws"),
    Changed("from a thread", get("/a"), in_thread(get("/a")), "other_lane", by_rule=True),
    Changed("another order", get("/a", "/b"), get("/b", "/a"), "other_order", by_rule=True),
    Changed("left out", get("/a", "/b", "/c"), get("/a", "/c"), "other_order"),
    Changed("one more", get("/a", "/b"), get("/a", "/b", "/a"), "repeated"),
    Changed("tried again", get("/broken"), get("/broken", "/broken"), "retry"),
    Changed("a new call at the end", get("/a"), get("/a", "/new"), "new_call"),
    Changed("a new call before", get("/a", "/b"), get("/new", "/a", "/b"), "another_call"),
    Changed("ended early", get("/a", "/b", "/c"), get("/a"), "gone", settles=False, by_rule=True),
    Changed(
        "a word that is nothing we know", post({"colour": "red"}), post({"colour": "blue"}), ""
    ),
    Changed("a number that is nothing we know", post({"people": 2}), post({"people": 5}), ""),
]
