"""A small agent: asks a model a few times. ``python -m bench.agent TURNS [canned]``."""

from __future__ import annotations

import sys

import httpx

from bench.clients import ANSWER, HEADERS

__all__ = ["Answers", "agent", "canned", "use"]

_client = httpx.Client(trust_env=False, verify=False)


class Answers(httpx.BaseTransport):
    """The model, as a recording hears it."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        return httpx.Response(200, headers=HEADERS, content=ANSWER)


def canned() -> httpx.BaseTransport:
    """httpx's own transport for tests: it answers by itself, and nothing is recorded."""
    return httpx.MockTransport(lambda request: httpx.Response(200, headers=HEADERS, content=ANSWER))


def use(transport: httpx.BaseTransport) -> None:
    """From now on the agent asks there."""
    global _client
    _client = httpx.Client(transport=transport, trust_env=False)


def agent(turns: int) -> str:
    """What the model said."""
    said = []
    for turn in range(turns):
        messages = [{"role": "user", "content": f"question {turn}"}]
        body = {"model": "m", "messages": messages}
        answer = _client.post("http://model.example/v1/ask", json=body).json()
        said.append(answer["choices"][0]["message"]["content"])
    return " ".join(said)


if __name__ == "__main__":
    if sys.argv[2:] == ["canned"]:
        use(canned())
    print(agent(int(sys.argv[1])))
