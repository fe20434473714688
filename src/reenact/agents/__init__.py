"""Agent runs: a loop over a model and tools, its events, and how it is recorded and replayed.

``reenact.run_agent`` and ``reenact.run_agent_async`` are the loop; the rest is what they take and
give.
"""

from __future__ import annotations

from reenact.agents.adapters.anthropic_messages import AnthropicMessages
from reenact.agents.adapters.openai_chat import OpenAIChat
from reenact.agents.adapters.openai_responses import OpenAIResponses
from reenact.agents.compaction import Compaction
from reenact.agents.config import ReplayConfig
from reenact.agents.event_bus import Bus, BusEvent, emit
from reenact.agents.event_mapping import capture_event
from reenact.agents.messages import (
    Delta,
    Message,
    ModelReply,
    ModelRequest,
    Native,
    Reasoning,
    ToolRequest,
    ToolSpec,
    Usage,
)
from reenact.agents.model_failures import Backoff, classify
from reenact.agents.result import AgentError, AgentFailed, AgentResult, Attempt
from reenact.agents.runner import run_agent, run_agent_async

__all__ = [
    "AgentError",
    "AgentFailed",
    "AgentResult",
    "AnthropicMessages",
    "Attempt",
    "Backoff",
    "Bus",
    "BusEvent",
    "Compaction",
    "Delta",
    "Message",
    "ModelReply",
    "ModelRequest",
    "Native",
    "OpenAIChat",
    "OpenAIResponses",
    "Reasoning",
    "ReplayConfig",
    "ToolRequest",
    "ToolSpec",
    "Usage",
    "capture_event",
    "classify",
    "emit",
    "run_agent",
    "run_agent_async",
]
