"""What a server answers when it does not do what was asked, as our errors with their exit codes."""

from __future__ import annotations

from typing import Any

import msgspec

from reenact.errors import PolicyRefused, ReenactError, UsageError

__all__ = ["ServerMisused", "ServerRefused", "ServerUnusable", "refusal"]

_MOST = 2_000


class ServerRefused(PolicyRefused):
    """The server may not, or cannot now, do it: a permission, a tier, an agent that is away."""

    code = "server.refused"


class ServerMisused(UsageError):
    """What was asked makes no sense to the server, or is about something that is not there."""

    code = "server.misused"


class ServerUnusable(ReenactError):
    """There is no server, or its answer cannot be used."""

    code = "server.unusable"
    exit_code = 3


class _Facts(msgspec.Struct):
    code: str
    message: str = ""
    hint: str = ""
    details: dict[str, Any] = {}
    requestId: str = ""


class _Body(msgspec.Struct):
    error: _Facts


_MISUSE = frozenset({400, 404, 405, 413, 415, 422})
_HINTS = {
    "unauthenticated": "sign in: reenact login URL; or set REENACT_SERVER and REENACT_API_KEY",
    "session_expired": "sign in again: reenact login",
    "agent_offline": "see who is there: reenact agents",
    "rate_limited": "wait a little, and ask again",
    "reason_required": "say why: --reason",
}


def refusal(status: int, body: bytes, retry_after: str = "") -> ReenactError:
    """The error for an answer of 4xx or 5xx. ``problem`` in its fields is the server's own code."""
    try:
        facts = msgspec.json.decode(body, type=_Body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        facts = _Facts(code="", message=f"the server answered {status}, and not in our shape")
    kind: type[ReenactError] = ServerUnusable
    if status in _MISUSE:
        kind = ServerMisused
    elif 400 <= status < 500 and status != 410:
        kind = ServerRefused
    hint = facts.hint or _HINTS.get(facts.code, "")
    if retry_after.isdecimal():
        hint = f"ask again in {retry_after} s" if not hint else f"{hint} ({retry_after} s)"
    return kind(
        facts.message[:_MOST] or facts.code or f"the server answered {status}",
        hint=hint[:_MOST] or "ask whoever runs the server, and give them the request id",
        problem=facts.code or None,
        status=status,
        requestId=facts.requestId or None,
    )
