"""``last`` in place of an id: the newest exchange that is no replay, or the newest replay."""

from __future__ import annotations

from reenact.cli.client import Client
from reenact.errors import UsageError

__all__ = ["LAST", "exchange_id", "replay_id"]

LAST = "last"


def exchange_id(client: Client, text: str) -> str:
    """The id that is meant. Raises :class:`UsageError` when there is no exchange."""
    if text != LAST:
        return text
    found = _first(client, "/api/v1/exchanges", {"replay": "false"}, "exchangeId")
    if found is None:
        raise UsageError(
            "there is no exchange yet", hint="is an app connected? see: reenact agents"
        )
    return found


def replay_id(client: Client, text: str) -> str:
    """The id of a replay that is meant. Raises :class:`UsageError` when there is none."""
    if text != LAST:
        return text
    found = _first(client, "/api/v1/replays", {}, "replayId")
    if found is None:
        raise UsageError("nothing was replayed yet", hint="reenact exchange replay ID")
    return found


def _first(client: Client, path: str, query: dict[str, str], name: str) -> str | None:
    return next((str(one[name]) for one in client.items(path, query, 1) if name in one), None)
