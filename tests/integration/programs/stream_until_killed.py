"""Read a stream with httpx, acknowledge each piece, then wait to be killed: URL CONTAINER PLACE PIPE COUNT."""

from __future__ import annotations

import sys
from typing import Any

import httpx

import reenact
from tests.integration.programs.acknowledge import Acknowledge


def main() -> None:
    url, container, place, pipe, count = sys.argv[1:]
    saw = Acknowledge(pipe, "saw")
    where: dict[str, Any] = {container: place}
    session = reenact.session(mode="record", redaction="default", seal=False, **where)
    with session, httpx.stream("GET", url) as response:
        for number, _ in enumerate(response.iter_raw(), 1):
            saw(number)
            if number == int(count):
                sys.stdin.read()


main()
