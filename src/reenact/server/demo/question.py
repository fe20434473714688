"""Program for the recorded run of the demo: it calls the model twice and does not use Reenact."""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import Any

__all__ = ["ask", "main"]


def ask(server: str, messages: list[dict[str, str]]) -> Any:
    """Return the next message of the model."""
    data = json.dumps({"model": "small-1", "messages": messages}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server}/v1/chat/completions", data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["choices"][0]["message"]


def main(server: str) -> None:
    """Two questions, of which the second builds on the first."""
    messages = [{"role": "user", "content": "How do I make green tea?"}]
    messages.append(ask(server, messages))
    messages.append({"role": "user", "content": "And black tea?"})
    print(ask(server, messages)["content"], file=sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
