"""Every error Reenact raises on purpose.

    ReenactError                     .code  .message  .hint  .fields  .exit_code
    ├── UsageError                   the call or command line is invalid                  exit 2
    │   ├── ExtraMissing             an optional dependency is not installed
    │   ├── PluginBroken             a boundary or lens of an installed package is unusable
    │   ├── PolicyInvalid            a policy file that cannot be used (.place)
    │   ├── PathRefused              a path that must not be used as a cassette
    │   ├── SessionClosed            a call through a session that has ended
    │   └── ServerMisused            an invalid request to a server, or a missing object
    ├── PolicyRefused                the policy in force forbids it                       exit 4
    │   ├── CapabilityDenied         the policy does not allow the operation
    │   ├── BudgetExceeded           too many operations, or too much data
    │   └── ServerRefused            the server refuses or is not able to do it (.fields["problem"])
    ├── RrError                      the low-level API refuses (.number)                  exit 2
    ├── ValueRefused                 a value that JSON cannot hold faithfully (.path)     exit 2
    ├── RecordingError               a recording cannot be used                           exit 3
    │   ├── RecordingMissing         no recording at the path
    │   ├── RecordingDamaged         its content is damaged or was changed (.place)
    │   │   └── SignatureInvalid     the signature does not match the manifest
    │   ├── RecordingUnfinished      the writer never closed it
    │   ├── RecordingTooNew          written by a later major version
    │   └── RecordingOutdated        written by an earlier major version: migrate it
    ├── AuditInvalid                 a part of an audit log proves nothing (.reason)      exit 3
    ├── ServerUnusable               no server, or a response that cannot be used         exit 3
    ├── SinkError                    a recording cannot be written                        exit 2
    │   ├── RecordingExists          a recording already exists
    │   ├── WriterBusy               another writer is writing it
    │   └── SinkUnwritable           the path cannot be written
    ├── ToolNotRecorded              a lenient replay has no result for a tool            exit 1
    └── ToolFailed                   a ready-made tool failed (.details)                  exit 2
        ├── CommandFailed            timed out, was ended by a signal, or could not be run
        └── WebFailed                no response, or one that cannot be used

    DivergenceError                  the run differs from the recording (.divergence)     exit 1
                                     a BaseException: ``except Exception`` cannot hide it

Messages never contain recorded payloads: only paths, names, numbers and digests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AuditInvalid",
    "BudgetExceeded",
    "CapabilityDenied",
    "CommandFailed",
    "Described",
    "DivergenceError",
    "ExtraMissing",
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
    "ServerMisused",
    "ServerRefused",
    "ServerUnusable",
    "SessionClosed",
    "SignatureInvalid",
    "SinkError",
    "SinkUnwritable",
    "ToolFailed",
    "ToolNotRecorded",
    "UsageError",
    "ValueRefused",
    "WebFailed",
    "WriterBusy",
    "did_you_mean",
    "nearest",
]


class ReenactError(Exception):
    """Base class of all errors.

    ``str(error)`` is the message, and ``hint`` is the suggested next step.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str = "", **fields: str | int | None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # shown in tracebacks
        self.fields = {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> dict[str, str | int | dict[str, str | int]]:
        """Return the stable machine-readable form that ``--json`` prints."""
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "fields": self.fields,
        }


class UsageError(ReenactError):
    code = "usage"


class ExtraMissing(UsageError):
    """The package of a requested optional feature is not installed."""

    code = "usage.extra_missing"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the optional extra '{extra}', which is not installed",
            hint=f"pip install 'reenact[{extra}]'",
            extra=extra,
        )


class PluginBroken(UsageError):
    """An entry point of an installed package cannot be used.

    Raised in a replay. While recording, the message is a warning.
    """

    code = "usage.plugin_broken"

    def __init__(self, what: str, name: str, package: str, reason: str) -> None:
        distribution = package.partition(" ")[0]
        super().__init__(
            f"the {what} {name} of the installed package {package} cannot be used: {reason}",
            hint=f"repair the package, or remove it: pip uninstall {distribution}",
            package=package,
            name=name,
        )


class PolicyInvalid(UsageError):
    """A policy, sanitizer or index file is wrong. ``place`` is the file and the field in it."""

    code = "policy.invalid"

    def __init__(
        self, message: str, *, place: str, hint: str = "", **fields: str | int | None
    ) -> None:
        super().__init__(message, hint=hint, place=place, **fields)
        self.place = place


class PathRefused(UsageError):
    code = "path.refused"


class SessionClosed(UsageError):
    code = "session.closed"


class ServerMisused(UsageError):
    """``problem`` in its fields is the server's own code, here and in the two others."""

    code = "server.misused"


class PolicyRefused(ReenactError):
    """The policy forbids it: a mode, a world, a kind, an operation, an address."""

    code = "policy.refused"
    exit_code = 4


class CapabilityDenied(PolicyRefused):
    code = "policy.denied"


class BudgetExceeded(PolicyRefused):
    code = "policy.budget"


class ServerRefused(PolicyRefused):
    """A permission, a tier, an agent that is away."""

    code = "server.refused"


class RrError(ReenactError):
    """``number`` is the stable number of the low-level API: 2000 to 2014, and 1 to 4 for streams."""

    code = "rr"

    def __init__(self, number: int, message: str, *, hint: str = "") -> None:
        super().__init__(f"{number}: {message}", hint=hint, number=number)
        self.number = number


class ValueRefused(ReenactError):
    """A value cannot be represented in canonical JSON.

    ``path`` is its location, and ``$`` is the complete value.
    """

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


class AuditInvalid(ReenactError):
    """``reason`` is a stable word for what is wrong: ``proof.short``, ``note.signature`` …"""

    code = "audit.invalid"
    exit_code = 3

    def __init__(
        self, message: str, *, reason: str, hint: str = "", **fields: str | int | None
    ) -> None:
        super().__init__(message, hint=hint, reason=reason, **fields)
        self.reason = reason


class ServerUnusable(ReenactError):
    code = "server.unusable"
    exit_code = 3


class SinkError(ReenactError):
    code = "sink"


class RecordingExists(SinkError):
    code = "sink.exists"


class WriterBusy(SinkError):
    code = "sink.busy"


class SinkUnwritable(SinkError):
    code = "sink.unwritable"


class ToolNotRecorded(ReenactError):
    """The recording of a lenient replay has no result for a tool call.

    It is an ordinary exception: an agent loop reports the failed tool to its model and continues.
    The report of the session contains the divergence as well.
    """

    code = "divergence.tool"
    exit_code = 1

    def __init__(self, name: str, divergence: Described) -> None:
        super().__init__(
            f"the recording has no result for this call of the tool {name}", hint=divergence.hint
        )
        self.divergence = divergence


class ToolFailed(ReenactError):
    """A ready-made tool failed. ``details`` are plain data, sorted by name, as in a replay."""

    code = "tool.failed"

    def __init__(
        self, message: str, *, hint: str = "", details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.details = dict(sorted((details or {}).items()))


class CommandFailed(ToolFailed):
    code = "tool.command"


class WebFailed(ToolFailed):
    code = "tool.web"


class Described(Protocol):
    """Content of a :class:`DivergenceError`: a value that can be printed and sent."""

    @property
    def detail(self) -> str:
        """Description in one sentence."""

    @property
    def hint(self) -> str:
        """Suggested next step."""

    def to_json(self) -> dict[str, Any]:
        """Return the versioned machine-readable form."""


class DivergenceError(BaseException):
    """The program made a call that differs from the recording.

    It is not an :class:`Exception`, so a program that swallows errors does not swallow this one.
    ``str(error)`` is the rendered report. ``divergence`` is the value, and ``to_json()`` its stable
    form.
    """

    code: ClassVar[str] = "divergence"
    exit_code: ClassVar[int] = 1

    def __init__(self, divergence: Described, report: str = "") -> None:
        super().__init__(report or divergence.detail)
        self.divergence = divergence
        self.message = divergence.detail
        self.hint = divergence.hint

    def __reduce__(self) -> tuple[type[DivergenceError], tuple[Described, str]]:
        """Support pickling, because process pools send the error to the parent."""
        return type(self), (self.divergence, str(self))

    def to_json(self) -> dict[str, Any]:
        """Return the stable machine-readable form of the divergence."""
        return self.divergence.to_json()


# Suggestions for misspelled names


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the most similar of the ``known`` names, ignoring case; None if none is similar."""
    from difflib import get_close_matches  # most programs make no mistakes

    spelled = {one.lower(): one for one in known}
    found = get_close_matches(name[:120].lower(), spelled, 1, 0.6)
    return spelled[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint: the nearest name, otherwise all of them."""
    names = sorted(known)
    found = nearest(name, names)
    if found is not None:
        return f"did you mean {found}?"
    return f"one of {', '.join(names)}" if names else "none is known"
