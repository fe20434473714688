"""What a server answers when it does not do what was asked, as our errors with their exit codes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from reenact.errors import ReenactError, ServerMisused, ServerRefused, ServerUnusable

__all__ = ["refusal"]

_MOST = 2_000
_REPORT: Final = "ask whoever runs the server, and give them the request id"


class _Facts(msgspec.Struct):
    code: str
    message: str = ""
    hint: str = ""
    details: dict[str, Any] = {}
    requestId: str = ""


class _Body(msgspec.Struct):
    error: _Facts


_MISUSE: Final = frozenset({400, 404, 405, 413, 415, 422})
_OUR_MISTAKE: Final = frozenset({"conflict", "exchange_conflict", "idempotency_conflict"})

_OURS: Final = {
    "unauthenticated": "sign in: reenact login URL; or set REENACT_SERVER and REENACT_API_KEY",
    "session_expired": "sign in again: reenact login",
    "reason_required": "say why: --reason TEXT",
    "revision_mismatch": "replay it through the route as it is now: --revision current",
}
"""What to do on the command line; the server says what to do for any client."""

_OTHERWISE: Final = {
    "malformed": "is the server of this version? see its log for the request id",
    "credentials_wrong": "check both; whoever forgot the password asks for: reenact user invite",
    "csrf_failed": "sign in again: reenact login",
    "permission_denied": "ask a tenant administrator: reenact user grant",
    "production_permission_required": "ask a tenant administrator for replay:execute:production",
    "live_permission_required": "ask for replay:live, or replay with --boundaries recorded",
    "tier_required": "ask the administrators of the platform: reenact tenant set",
    "key_bound_elsewhere": "use the key that was made for this app and environment: reenact key ls",
    "setup_done": "there is an account already: reenact login URL",
    "agent_unknown": "see who is there: reenact agents",
    "method_not_allowed": "is the server of this version? reenact --version says which this is",
    "drivers_undeclared": "declare them in the app: Agent(…, drivers={…}); see reenact agents",
    "agent_offline": "see who is there: reenact agents",
    "agent_superseded": "another process uses the same id: reenact agents",
    "conflict": "look at how it is now, and ask for something else",
    "exchange_conflict": "another exchange has this id: reenact exchange show ID",
    "idempotency_conflict": "ask again: each replay has a key of its own",
    "replay_depth": "replay the original instead: reenact exchange show ID says which it is",
    "gone": "it was erased, or has ended; what there is: reenact exchange ls",
    "not_replayable": "find those that are: reenact exchange ls --replayable",
    "too_large": "send less at once",
    "too_slow": "the connection is slow, or something between holds it up: send less at once",
    "unsupported": "is the server of this version? reenact --version says which this is",
    "invalid": "check what you gave; --help says what goes there",
    "payload_invalid": "check the paths: reenact exchange show ID has the payload",
    "rate_limited": "wait a little, and ask again",
    "internal": f"{_REPORT}: it is in the log",
    "damaged": f"{_REPORT}; reenact audit verify says whether the log is whole",
    "storage_full": "ask whoever runs the server to make room; nothing was kept of this",
    "unavailable": "wait a little, and ask again",
}
"""Where the server says nothing."""

_LISTS: Final = (
    (
        "/api/v1/replays",
        "see what there is: reenact exchange replays",
    ),
    ("/api/v1/exchanges", "see what there is: reenact exchange ls"),
    ("/api/v1/captures", "send it first: reenact push RUN"),
    ("/api/v1/users", "see who there is: reenact user ls"),
    ("/api/v1/keys", "see what there is: reenact key ls"),
    ("/api/v1/tenants", "see what there is: reenact tenant ls"),
    ("/api/v1/environments", "see what there is: reenact environment ls"),
    ("/api/v1/audit", "see what there is: reenact audit ls"),
    ("/api/v1/agents", "see who is there: reenact agents"),
)


def refusal(status: int, body: bytes, retry_after: str = "", *, path: str = "") -> ReenactError:
    """The error for an answer of 4xx or 5xx to a request of ``path``. ``problem`` in its fields is
    the server's own code."""
    try:
        facts = msgspec.json.decode(body, type=_Body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        facts = _Facts(code="", message=f"the server answered {status}, and not in our shape")
    hint = _hint(facts, path)
    if retry_after.isdecimal():
        hint = f"ask again in {retry_after} s" if not hint else f"{hint} ({retry_after} s)"
    return _kind(status, facts.code)(
        facts.message[:_MOST] or facts.code or f"the server answered {status}",
        hint=hint[:_MOST] or _REPORT,
        problem=facts.code or None,
        status=status,
        requestId=facts.requestId or None,
    )


def _kind(status: int, code: str) -> type[ReenactError]:
    if status in _MISUSE or (status < 500 and code in _OUR_MISTAKE):
        return ServerMisused
    return ServerRefused if 400 <= status < 500 and status != 410 else ServerUnusable


def _hint(facts: _Facts, path: str) -> str:
    said = _OURS.get(facts.code) or facts.hint or _OTHERWISE.get(facts.code, "")
    if said or facts.code != "not_found":
        return said
    return next((hint for part, hint in _LISTS if path.startswith(part)), "check its address")
