"""Which problems a route may answer with: most follow from what it takes (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from reenact.server.routing import Endpoint, Says

__all__ = ["problem_codes"]


def problem_codes(endpoint: Endpoint, says: Says) -> tuple[str, ...]:
    """Their codes, each once."""
    return tuple(dict.fromkeys(_codes(endpoint, says)))


def _codes(endpoint: Endpoint, says: Says) -> Iterator[str]:
    yield "malformed"
    if endpoint.needs != "open":
        yield from ("unauthenticated", "session_expired", "csrf_failed", "permission_denied")
    if endpoint.needs == "agent:connect":
        yield "key_bound_elsewhere"
    if isinstance(endpoint.needs, tuple):
        yield from ("tier_required", "production_permission_required", "live_permission_required")
    if "{agent_id}" in endpoint.path:
        yield "agent_unknown"
    if "{" in endpoint.path:
        yield "not_found"
    if says.takes is not None:
        yield from ("too_slow", "too_large", "unsupported", "invalid")
    if says.query:
        yield "invalid"
    if endpoint.needs != "open" or endpoint.method != "GET":
        yield "storage_full"  # who was denied, or has read, is in the audit log as well
    yield from says.codes
