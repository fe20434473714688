"""All clients of the contract, with the abilities of each."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.contract.clients.face import Client
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


def _clients() -> tuple[Client, ...]:
    """Collect ``CLIENTS`` of the modules in this folder."""
    here = Path(__file__)
    names = sorted(path.stem for path in here.parent.glob("*.py") if path != here)
    modules = [import_module(f"tests.contract.clients.{name}") for name in names]
    return tuple(client for module in modules for client in getattr(module, "CLIENTS", ()))


def can(client: Client, ability: str) -> bool:
    """Is there a way to do this with ``client``?"""
    assert ability in ABILITIES
    if ability == "cancel":
        return isinstance(client, Tasks)
    return ability not in client.cannot


def able(*abilities: str) -> list[Client]:
    """The clients that can do all of this."""
    return [client for client in CLIENTS if all(can(client, one) for one in abilities)]


def named(name: str) -> Client:
    """The client of this name."""
    return next(client for client in CLIENTS if client.name == name)


CLIENTS = _clients()  # last: one of the modules imports this one
