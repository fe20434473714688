"""Record everything that crosses the edge of a program, and re-enact it later.

The names below are loaded when they are first used, so that ``import reenact`` costs nothing.
PYTEST_DONT_REWRITE: under ``reenact run`` this is imported before pytest.
"""

from __future__ import annotations

from reenact._version import __version__

TYPE_CHECKING = False  # typing itself would be a third of what ``reenact --help`` costs
if TYPE_CHECKING:
    from typing import Any

    from reenact import agents, clock, exchange, rng, rr, tools
    from reenact.agents.config import ReplayConfig
    from reenact.agents.runner import run_agent, run_agent_async
    from reenact.engine.boundary_decorator import boundary
    from reenact.engine.divergence.model import Divergence
    from reenact.engine.fork.plan import At
    from reenact.engine.session.current import current
    from reenact.engine.session.final_report import Report
    from reenact.engine.session.session import Session
    from reenact.errors import (
        BudgetExceeded,
        CapabilityDenied,
        DivergenceError,
        PathRefused,
        PluginBroken,
        PolicyInvalid,
        PolicyRefused,
        RecordingDamaged,
        RecordingError,
        RecordingExists,
        RecordingMissing,
        RecordingOutdated,
        RecordingTooNew,
        RecordingUnfinished,
        ReenactError,
        RrError,
        SessionClosed,
        SinkError,
        UsageError,
        ValueRefused,
        WriterBusy,
    )
    from reenact.exchange.context import is_replay
    from reenact.format.canonical import canonical, digest
    from reenact.format.event import Draft, Event
    from reenact.format.event_fields import (
        ErrorInfo,
        LlmRequest,
        LlmResponse,
        Nondeterministic,
        RunEnd,
        RunStart,
        StateMutation,
        ToolCall,
        ToolResult,
    )
    from reenact.format.manifest import Manifest
    from reenact.policy.model import Ignore, Policy
    from reenact.policy.redaction.redactor import Redactor
    from reenact.scope import session
    from reenact.store.reader import open_recording
    from reenact.store.recording import Recording, start_recording
    from reenact.store.sinks.base import Sink
    from reenact.store.source import Source
    from reenact.store.verify import verify
    from reenact.tools.llm import llm
    from reenact.tools.tool import tool

_HOME = {
    "reenact.agents.config": ("ReplayConfig",),
    "reenact.agents.runner": ("run_agent", "run_agent_async"),
    "reenact.engine.fork.plan": ("At",),
    "reenact.engine.session.current": ("current",),
    "reenact.engine.divergence.model": ("Divergence",),
    "reenact.engine.session.final_report": ("Report",),
    "reenact.scope": ("session",),
    "reenact.engine.session.session": ("Session",),
    "reenact.engine.boundary_decorator": ("boundary",),
    "reenact.errors": (
        "BudgetExceeded",
        "CapabilityDenied",
        "DivergenceError",
        "PathRefused",
        "PluginBroken",
        "PolicyInvalid",
        "PolicyRefused",
        "RecordingDamaged",
        "RecordingError",
        "RecordingExists",
        "RecordingMissing",
        "RecordingOutdated",
        "RecordingTooNew",
        "RecordingUnfinished",
        "ReenactError",
        "RrError",
        "SessionClosed",
        "SinkError",
        "UsageError",
        "ValueRefused",
        "WriterBusy",
    ),
    "reenact.exchange.context": ("is_replay",),
    "reenact.format.canonical": ("canonical", "digest"),
    "reenact.format.event": ("Draft", "Event"),
    "reenact.format.manifest": ("Manifest",),
    "reenact.format.event_fields": (
        "ErrorInfo",
        "LlmRequest",
        "LlmResponse",
        "Nondeterministic",
        "RunEnd",
        "RunStart",
        "StateMutation",
        "ToolCall",
        "ToolResult",
    ),
    "reenact.policy.redaction.redactor": ("Redactor",),
    "reenact.policy.model": ("Ignore", "Policy"),
    "reenact.store.reader": ("open_recording",),
    "reenact.store.recording": ("Recording", "start_recording"),
    "reenact.store.sinks.base": ("Sink",),
    "reenact.store.source": ("Source",),
    "reenact.store.verify": ("verify",),
    "reenact.tools.llm": ("llm",),
    "reenact.tools.tool": ("tool",),
}
_ROOMS = ("agents", "clock", "exchange", "rng", "rr", "tools")
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "At",
    "BudgetExceeded",
    "CapabilityDenied",
    "Divergence",
    "DivergenceError",
    "Draft",
    "ErrorInfo",
    "Event",
    "Ignore",
    "LlmRequest",
    "LlmResponse",
    "Manifest",
    "Nondeterministic",
    "PathRefused",
    "PluginBroken",
    "Policy",
    "PolicyInvalid",
    "PolicyRefused",
    "Recording",
    "RecordingDamaged",
    "RecordingError",
    "RecordingExists",
    "RecordingMissing",
    "RecordingOutdated",
    "RecordingTooNew",
    "RecordingUnfinished",
    "Redactor",
    "ReenactError",
    "ReplayConfig",
    "Report",
    "RrError",
    "RunEnd",
    "RunStart",
    "Session",
    "SessionClosed",
    "Sink",
    "SinkError",
    "Source",
    "StateMutation",
    "ToolCall",
    "ToolResult",
    "UsageError",
    "ValueRefused",
    "WriterBusy",
    "__version__",
    "agents",
    "boundary",
    "canonical",
    "clock",
    "current",
    "digest",
    "exchange",
    "is_replay",
    "llm",
    "open_recording",
    "rng",
    "rr",
    "run_agent",
    "run_agent_async",
    "session",
    "start_recording",
    "tool",
    "tools",
    "verify",
]


def __getattr__(name: str) -> Any:
    module = _MODULE.get(name)
    if module is None and name not in _ROOMS:
        raise AttributeError(f"module 'reenact' has no attribute {name!r}")
    from importlib import import_module

    if module is None:
        return import_module(f"reenact.{name}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
