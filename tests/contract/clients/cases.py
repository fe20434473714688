"""The marks that run a test with one client after another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.clients.every import able

__all__ = ["every"]


def every(*abilities: str) -> Any:
    """The test is run with every client that can do this."""
    clients = able(*abilities)
    return pytest.mark.parametrize("client", clients, ids=[client.name for client in clients])
