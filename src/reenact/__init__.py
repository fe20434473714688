"""Record everything that crosses the edge of a program, and re-enact it later.

The names below are loaded when they are first used, so that ``import reenact`` costs nothing.
"""

from __future__ import annotations

from reenact._version import __version__

TYPE_CHECKING = False  # typing itself would be a third of what ``reenact --help`` costs
if TYPE_CHECKING:
    from typing import Any

    from reenact.errors import (
        RecordingDamaged,
        RecordingError,
        RecordingExists,
        RecordingMissing,
        RecordingOutdated,
        RecordingTooNew,
        RecordingUnfinished,
        ReenactError,
        SinkError,
        UsageError,
        ValueRefused,
        WriterBusy,
    )
    from reenact.format.canonical import canonical, digest
    from reenact.format.event import Draft, Event
    from reenact.format.manifest import Manifest
    from reenact.format.payloads import (
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
    from reenact.policy.redaction import Redactor
    from reenact.store.reading import open_recording
    from reenact.store.recording import Recording, start_recording
    from reenact.store.sink import Sink
    from reenact.store.source import Source
    from reenact.store.verify import verify

_HOME = {
    "reenact.errors": (
        "RecordingDamaged",
        "RecordingError",
        "RecordingExists",
        "RecordingMissing",
        "RecordingOutdated",
        "RecordingTooNew",
        "RecordingUnfinished",
        "ReenactError",
        "SinkError",
        "UsageError",
        "ValueRefused",
        "WriterBusy",
    ),
    "reenact.format.canonical": ("canonical", "digest"),
    "reenact.format.event": ("Draft", "Event"),
    "reenact.format.manifest": ("Manifest",),
    "reenact.format.payloads": (
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
    "reenact.policy.redaction": ("Redactor",),
    "reenact.store.reading": ("open_recording",),
    "reenact.store.recording": ("Recording", "start_recording"),
    "reenact.store.sink": ("Sink",),
    "reenact.store.source": ("Source",),
    "reenact.store.verify": ("verify",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Draft",
    "ErrorInfo",
    "Event",
    "LlmRequest",
    "LlmResponse",
    "Manifest",
    "Nondeterministic",
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
    "RunEnd",
    "RunStart",
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
    "canonical",
    "digest",
    "open_recording",
    "start_recording",
    "verify",
]


def __getattr__(name: str) -> Any:
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'reenact' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
