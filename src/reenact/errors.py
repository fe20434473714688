"""Every error Reenact raises on purpose.

    ReenactError                     .code  .message  .hint  .fields  .exit_code
    ├── UsageError                   the call or command line makes no sense              exit 2
    │   └── ExtraMissing             an optional dependency is not installed
    ├── ValueRefused                 a value that JSON cannot hold faithfully (.path)     exit 2
    ├── RecordingError               a recording cannot be used                           exit 3
    │   ├── RecordingMissing         nothing there
    │   ├── RecordingDamaged         something there is not what was written (.place)
    │   │   └── SignatureInvalid     the manifest is not what the holder of the key signed
    │   ├── RecordingUnfinished      the writer never closed it
    │   ├── RecordingTooNew          written by a later major version
    │   └── RecordingOutdated        written by an earlier major version: migrate it
    └── SinkError                    a recording cannot be written                        exit 2
        ├── RecordingExists          there already is one
        ├── WriterBusy               somebody else is writing it
        └── SinkUnwritable           the place cannot be written

Messages never contain recorded payloads: only paths, names, numbers and digests.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "ExtraMissing",
    "RecordingDamaged",
    "RecordingError",
    "RecordingExists",
    "RecordingMissing",
    "RecordingOutdated",
    "RecordingTooNew",
    "RecordingUnfinished",
    "ReenactError",
    "SignatureInvalid",
    "SinkError",
    "SinkUnwritable",
    "UsageError",
    "ValueRefused",
    "WriterBusy",
]


class ReenactError(Exception):
    """Base of the tree. ``str(error)`` is the message; ``hint`` says what to do next."""

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str = "", **fields: str | int | None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> dict[str, str | int | dict[str, str | int]]:
        """The stable machine form that ``--json`` prints."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "fields": self.fields,
        }


class UsageError(ReenactError):
    code = "usage"


class ExtraMissing(UsageError):
    """An optional feature was asked for and its package is not installed."""

    code = "usage.extra_missing"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the optional extra '{extra}', which is not installed",
            hint=f"pip install 'reenact[{extra}]'",
            extra=extra,
        )


class ValueRefused(ReenactError):
    """A value that canonical JSON cannot hold. ``path`` is where it sits, ``$`` being the whole."""

    code = "value.refused"

    def __init__(self, reason: str, path: str = "$", *, hint: str = "") -> None:
        super().__init__(f"{path}: {reason}", hint=hint, path=path)
        self.reason = reason
        self.path = path


class RecordingError(ReenactError):
    code = "recording"
    exit_code = 3


class RecordingMissing(RecordingError):
    code = "recording.missing"


class RecordingDamaged(RecordingError):
    """``place`` names the first bad place: ``line 12``, ``blob sha256:…``, ``file notes.txt`` …"""

    code = "recording.damaged"

    def __init__(
        self, message: str, *, place: str, hint: str = "", **fields: str | int | None
    ) -> None:
        super().__init__(message, hint=hint, place=place, **fields)
        self.place = place


class SignatureInvalid(RecordingDamaged):
    code = "recording.signature"


class RecordingUnfinished(RecordingError):
    code = "recording.unfinished"


class RecordingTooNew(RecordingError):
    code = "recording.too_new"


class RecordingOutdated(RecordingError):
    code = "recording.outdated"


class SinkError(ReenactError):
    code = "sink"


class RecordingExists(SinkError):
    code = "sink.exists"


class WriterBusy(SinkError):
    code = "sink.busy"


class SinkUnwritable(SinkError):
    code = "sink.unwritable"
