"""Pass-through rules: recorded calls that a replay ignores because a policy lets them go live.

Such calls can be in a recording that was made under a different rule, or under none. A replay
neither serves them nor reports them as missing.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from reenact.engine.call import CAPABILITIES, SLEEP, Entry

if TYPE_CHECKING:
    from reenact.policy.model import Policy

__all__ = ["PassThroughRules", "entry_capability", "pass_through_rules"]

_BY_TYPE = {"llm_request": "llm.call", "tool_call": "tool.call", "state_mutation": "fs.write"}
_BY_KIND = {**CAPABILITIES, SLEEP: "time.now"}
_STREAMS = "websocket"


def entry_capability(entry: Entry) -> str:
    """Return the capability of a recorded call."""
    capability = _BY_TYPE.get(entry.type) or _BY_KIND.get(entry.kind, entry.kind)
    if capability == "net.fetch" and entry.operation.startswith(_STREAMS):
        return "net.stream"
    return capability


class PassThroughRules:
    """Pass-through rules of ``policy``."""

    def __init__(self, policy: Policy) -> None:
        self._passes = cache(
            lambda capability, operation: policy.action_for(capability, operation) == "pass"
        )

    def calls(self, entry: Entry) -> bool:
        """Return whether the policy lets the call or draw ``entry`` pass."""
        return self._passes(entry_capability(entry), entry.operation)

    def draws(self, name: str) -> bool:
        """Return whether the policy lets the draw ``name`` of a run pass."""
        source = name.partition(" ")[0]
        return self._passes(_BY_KIND.get(source, source), "")


def pass_through_rules(policy: Policy) -> PassThroughRules | None:
    """Return the rules of ``policy``, or None if it lets nothing pass, as most do."""
    rules = (*(rule.action for rule in policy.boundaries), policy.clock, policy.rng)
    return PassThroughRules(policy) if "pass" in rules else None
