"""Is this command one to be obeyed? Decided from what came, and from what is known. Pure.

The order is that of the protocol. A replay that is known already is never run again, whatever comes
with its id.
"""

from __future__ import annotations

from typing import Any

import msgspec

from reenact.audit.keys import Key
from reenact.exchange.link.journal import Known
from reenact.exchange.link.limits import CLOCKS_DIFFER
from reenact.exchange.link.ports import Refusal
from reenact.exchange.model import PROTOCOL, Command
from reenact.exchange.signing import verify_document

__all__ = ["Forged", "Unreadable", "judge", "read_command"]


class Unreadable(Exception):
    """Not a command at all: nobody can be told what became of it."""


class Forged(msgspec.Struct, frozen=True):
    """It does not come from who may send it, or is meant for another: nothing that it says, not
    even the id of the replay, is to be believed."""

    code: str
    message: str


def read_command(data: str) -> tuple[dict[str, Any], Command]:
    """The document as it came, and the command in it. Raises :class:`Unreadable`."""
    try:
        document = msgspec.json.decode(data)
        command = msgspec.convert(document, Command)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"a command cannot be read: {error}") from None
    if command.v != PROTOCOL:
        raise Unreadable(f"a command has version {command.v}, and {PROTOCOL} is understood")
    return document, command


def judge(
    document: dict[str, Any],
    command: Command,
    *,
    key: Key,
    tenant: str,
    agent_id: str,
    now: int,
    known: Known | None,
    nonce_used_by: str | None,
) -> Forged | Refusal | None:
    """None: it is to be obeyed, or, where its replay is ``known``, to be answered as before.

    ``nonce_used_by`` is the command that came with the same nonce, if any did.
    """
    if not verify_document(document, key):
        return Forged("signature_invalid", "the command is not signed by the server's key")
    if command.tenant != tenant or command.agent_id != agent_id:
        return Forged("wrong_agent", "the command is for another agent")
    if nonce_used_by not in (None, command.command_id):
        return Refusal("nonce_reused", "its nonce came with another command before")
    if known is not None:
        return None
    if now > command.expires_at + CLOCKS_DIFFER:
        return Refusal("expired", "the command came too late")
    if command.type == "replay" and command.deadline and now > command.deadline:
        return Refusal("expired", "its deadline has passed")
    return None
