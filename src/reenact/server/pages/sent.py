"""Forms that are sent once: what was sent before, and that it was.

The address of a form has its key, and so it is the same form after going back to it. Sent again, it
leads to the replay that came of it; a new form makes a new replay.
"""

from __future__ import annotations

import re
from typing import Final

from reenact.server.asking import Ask
from reenact.server.pages.markup import Html, link, tag, url
from reenact.server.storage.exchange_replays import find_request

__all__ = ["is_key", "new_key", "replay_of", "was_sent"]

_KEY: Final = re.compile(r"[0-9a-f]{32}")


def is_key(text: str) -> bool:
    """Is it one of :func:`new_key`?"""
    return _KEY.fullmatch(text) is not None


def new_key(ask: Ask) -> str:
    """The key of a form, as the ``Idempotency-Key`` has it."""
    return ask.server.secret(16).hex()


async def replay_of(ask: Ask, key: str) -> str:
    """The replay that the form ``key`` of the one who asks has led to; empty for none."""
    async with ask.server.database.reading(ask.tenant) as scope:
        found = await find_request(scope, f"{ask.principal.type}:{ask.principal.id}", key)
    return "" if found is None else str(found.replay_id)


def was_sent(exchange_id: str, words: str, replay_id: str = "") -> Html:
    """That it was sent already, and the ways on. ``replay_id`` is left out where it is shown."""
    there = link(url("/replays/{}", replay_id), "Look at the replay", class_="button")
    new = link(url("/exchanges/{}/replay", exchange_id), "Make a new replay", class_="button")
    return tag(
        "div",
        tag("p", tag("strong", "This form was already sent."), " ", words),
        tag("p", there if replay_id else None, " ", new, class_="actions"),
        class_="once sent",
        role="status",
    )
