"""The one JSON error shape: status, code, message, hint.

A :class:`Problem` is raised anywhere below a handler and becomes the response. Its message never
contains a payload or a secret.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["STATUS", "Problem", "ProblemBody", "ProblemFacts"]

STATUS: Final[dict[str, int]] = {
    "malformed": 400,
    "unauthenticated": 401,
    "session_expired": 401,
    "credentials_wrong": 401,
    "csrf_failed": 403,
    "permission_denied": 403,
    "production_permission_required": 403,
    "live_permission_required": 403,
    "tier_required": 403,
    "key_bound_elsewhere": 403,
    "setup_done": 403,
    "not_found": 404,
    "agent_unknown": 404,
    "method_not_allowed": 405,
    "too_slow": 408,
    "agent_offline": 409,
    "agent_superseded": 409,
    "conflict": 409,
    "drivers_undeclared": 409,
    "exchange_conflict": 409,
    "idempotency_conflict": 409,
    "replay_depth": 409,
    "revision_mismatch": 409,
    "gone": 410,
    "not_replayable": 412,
    "too_large": 413,
    "unsupported": 415,
    "invalid": 422,
    "payload_invalid": 422,
    "reason_required": 422,
    "rate_limited": 429,
    "internal": 500,
    "damaged": 500,
    "unavailable": 503,
    "storage_full": 507,
}
"""Every code there is, and the status that goes with it."""


class ProblemFacts(msgspec.Struct, frozen=True, rename="camel"):
    """``code`` is one of :data:`STATUS`, ``hint`` a way out or empty."""

    code: str
    message: str
    hint: str
    details: dict[str, Any]
    request_id: str


class ProblemBody(msgspec.Struct, frozen=True):
    """The JSON of every answer that is a problem."""

    error: ProblemFacts


class Problem(Exception):
    """An error response.

    ``hint`` is a remedy, ``command`` the remedy on the command line. ``retry_after`` is in seconds.
    ``audited`` means that a more specific audit record already exists.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        hint: str = "",
        command: str = "",
        retry_after: int | None = None,
        audited: bool = False,
        **details: Any,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUS[code]
        self.message = message
        self.hint = hint
        self.command = command
        self.retry_after = retry_after
        self.audited = audited
        self.details = details

    def body(self, request_id: str) -> ProblemBody:
        """Return the JSON body."""
        hint = ": ".join(filter(None, (self.hint, self.command)))
        facts = ProblemFacts(self.code, self.message, hint, self.details, request_id)
        return ProblemBody(facts)
