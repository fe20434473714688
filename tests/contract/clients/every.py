"""All of them, and what each cannot do."""

from __future__ import annotations

import httpx
import httpx2

from tests.contract.clients.aio import Aiohttp
from tests.contract.clients.face import Client
from tests.contract.clients.httpx_like import HttpxOverAiohttp, HttpxTasks, HttpxThreads
from tests.contract.clients.pooled import Botocore, Requests, Urllib3
from tests.contract.clients.standard import HttpClient, Urllib
from tests.contract.clients.tasks import Tasks

__all__ = ["ABILITIES", "CLIENTS", "able", "named"]

ABILITIES = {
    "cancel": "give up a call that is under way",
    "decode": "undo a content coding",
    "file": "send an open file",
    "follow": "follow redirects",
    "history": "show the answers that led to the last one",
    "leave": "leave an answer unread and go on with the same client",
    "multipart": "make a form of several parts",
    "reason": "tell the reason that the server gave",
    "reuse": "keep a connection for the next request",
    "version": "tell the version of HTTP",
    "whole": "read the body before the program gets the answer",
}

CLIENTS: tuple[Client, ...] = (
    HttpxThreads(httpx),
    HttpxTasks(httpx),
    HttpxThreads(httpx2),
    HttpxTasks(httpx2),
    HttpxOverAiohttp(),
    Requests(),
    Urllib3(),
    Botocore(),
    Aiohttp(),
    Urllib(),
    HttpClient(),
)

_CANNOT: dict[str, set[str]] = {
    "httpx-async": {"file"},
    "httpx2-async": {"file"},
    "httpx-aiohttp": {"file", "version"},
    "urllib3": {"history"},
    "botocore": {"decode", "follow", "history", "multipart", "reason", "version"},
    "aiohttp": {"whole"},
    "urllib.request": {"decode", "history", "multipart", "reuse", "whole"},
    "http.client": {"decode", "follow", "history", "leave", "multipart", "whole"},
}
"""What a library has no way to do. Everything else is asked of it."""


def can(client: Client, ability: str) -> bool:
    """Is there a way to do this with ``client``?"""
    assert ability in ABILITIES
    if ability == "cancel":
        return isinstance(client, Tasks)
    return ability not in _CANNOT.get(client.name, set())


def able(*abilities: str) -> list[Client]:
    """The clients that can do all of this."""
    return [client for client in CLIENTS if all(can(client, one) for one in abilities)]


def named(name: str) -> Client:
    """The client of this name."""
    return next(client for client in CLIENTS if client.name == name)
