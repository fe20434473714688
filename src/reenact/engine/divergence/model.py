"""Divergence as a value: the observed call, the recorded one, their differences, and hints.

::

    event_type_mismatch          a different type of event was recorded at this position
    event_payload_mismatch       same type, different request
    event_missing                recorded but not requested: left over, skipped, cancelled, stalled
    event_unexpected             requested but not recorded: a call
    nondeterministic_underflow   requested but not recorded: a clock reading, random value …

Created by :class:`reenact.engine.divergence.diagnosis.Diagnosis`, which redacts and truncates the
contents: the JSON form has at most 64 KiB. ``docs/reference/divergence.md`` describes that form.
:class:`Remedies` holds the sentences about what to do, worded for the tool that prints them.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final, Literal

import msgspec

from reenact.engine.request import request_of
from reenact.errors import UsageError
from reenact.format.decoders import build_decoders

__all__ = [
    "CODES",
    "MAX_BYTES",
    "MAX_NEAREST",
    "MAX_PATHS",
    "OPERATOR_REMEDIES",
    "SESSION_REMEDIES",
    "TEST_REMEDIES",
    "VERSION",
    "Code",
    "Divergence",
    "Gap",
    "Nearest",
    "Recorded",
    "Remedies",
    "Seen",
    "divergence_schema",
    "text_of_bytes",
]


class Remedies(msgspec.Struct, frozen=True, kw_only=True):
    """Remedies for a changed, an additional and a missing call, one sentence each."""

    again: str
    more: str
    fewer: str


SESSION_REMEDIES: Final = Remedies(
    again="If the change is intended, mode='update' makes again what differs, and nothing else.",
    more="If the new call is intended, add it with mode='record_missing', "
    "or let mode='update' make again whatever differs.",
    fewer="If the program is right, mode='update' drops what it does not ask for, and keeps the rest.",
)
TEST_REMEDIES: Final = Remedies(
    again="If the change is intended, --reenact-update makes again what differs, and nothing else.",
    more="If the new call is intended, --reenact-update records it, and all other differences.",
    fewer="If the test is right, --reenact-update drops what it does not ask for, and keeps the rest.",
)
_LIVE = (
    "replay with the boundaries recorded_then_live: it goes out, the rest is answered as recorded."
)
OPERATOR_REMEDIES: Final = Remedies(
    again=f"If the call may be made for real as it is now, {_LIVE}",
    more=f"If the new call may be made for real, {_LIVE}",
    fewer="If the edit or the code is why, nothing is to be done: the original needed this call.",
)
"""Operators replay exchanges, and cannot choose a mode."""


VERSION: Final = 1
MAX_BYTES: Final = 65_536
MAX_PATHS: Final = 50
MAX_NEAREST: Final = 3

Code = Literal[
    "event_type_mismatch",
    "event_payload_mismatch",
    "event_missing",
    "event_unexpected",
    "nondeterministic_underflow",
]
CODES: Final[tuple[Code, ...]] = (
    "event_type_mismatch",
    "event_payload_mismatch",
    "event_missing",
    "event_unexpected",
    "nondeterministic_underflow",
)


class Seen(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A call of the program. ``data`` is its redacted request.

    ``digest`` is the digest of the complete request, if ``data`` was cut.
    """

    type: str
    operation: str
    lane: str
    data: Any = None
    digest: str | None = None

    @property
    def request(self) -> Any:
        """The request, as far as it is shown."""
        return self.data


class Recorded(Seen, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A recorded event: the complete envelope, with ``data`` redacted and cut to size. ``operation``
    and ``digest`` are added to it."""

    version: int
    capture_id: str
    run_id: str
    seq: int
    ts: int
    parent: int | None = None

    @property
    def request(self) -> Any:
        """The part of ``data`` that is compared in a replay."""
        return request_of(self.type, self.data) if isinstance(self.data, dict) else self.data


class Gap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One place where they differ. ``path`` is for people, ``normalised`` is RFC 9535."""

    path: str
    normalised: str = msgspec.field(name="jsonPath")
    kind: Literal["changed", "added", "removed"]
    expected: Any
    observed: Any


def text_of_bytes(value: Any) -> str | None:
    """Return the text of bytes as a divergence represents them; None for anything else."""
    raw = value.get("$bytes") if isinstance(value, dict) else None
    if not isinstance(raw, str):
        return None
    try:
        return b64decode(raw, validate=True).decode()
    except ValueError:
        return None


class Nearest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A recorded call that looks like what was asked for.

    ``score`` is 1 for one with the same key, else the part of it that is alike. ``paths`` are the
    first places where it differs. ``used``: the replay has served it already.
    """

    seq: int
    lane: str
    operation: str
    score: float
    paths: list[str]
    used: bool


class Divergence(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """See the top of the module. ``hint`` has one line for each thing that can be done.

    ``paths`` are in the order of a walk, ``more_paths`` is how many more there are. ``stack`` is
    where the lane stands that the replay waits for, when it stalled. ``served`` is the seq of the
    recorded call whose result was used instead, in a lenient replay.
    """

    code: Code
    detail: str
    lane: str
    expected: Recorded | None = None
    observed: Seen | None = None
    event_seq: int | None = None
    paths: list[Gap] = []
    more_paths: int = 0
    nearest: list[Nearest] = []
    hint: str = ""
    flags: list[str] = []
    stack: str | None = None
    served: int | None = None

    @property
    def json_path(self) -> str | None:
        """The first place where they differ, as people write it."""
        return self.paths[0].path if self.paths else None

    def to_json(self) -> dict[str, Any]:
        """Return the versioned JSON form. Empty values are left out, except for empty lists."""
        found = msgspec.to_builtins(self)
        first = {"jsonPath": self.paths[0].normalised} if self.paths else {}
        there = {name: item for name, item in found.items() if item is not None}
        return {"version": VERSION, **first, **there}

    @classmethod
    def from_json(cls, value: Any) -> Divergence:
        """Return the divergence of a :meth:`to_json` form. Unknown fields are ignored.

        Raises :class:`UsageError` for a different version and for an invalid form.
        """
        version = value.get("version") if isinstance(value, dict) else None
        if version != VERSION:
            raise UsageError(
                f"this is not a divergence of version {VERSION}: its version is {version!r}",
                hint="read it with the version of reenact that wrote it",
            )
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise UsageError(
                f"this is not a divergence: {error}",
                hint="docs/reference/divergence.md describes the form",
            ) from None


build_decoders(Divergence)


def divergence_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what :meth:`Divergence.to_json` returns."""
    schema = msgspec.json.schema(Divergence)
    parts = {name: _in_one_line(part) for name, part in schema["$defs"].items()}
    whole = parts.pop("Divergence")
    made = {
        "version": {"const": VERSION},
        "jsonPath": {"type": "string", "description": "the first of paths"},
    }
    always = ["version", "paths", "morePaths", "nearest", "hint", "flags"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Divergence",
        "description": f"A divergence, version {VERSION}.",
        "type": "object",
        "properties": {**made, **whole["properties"]},
        "required": sorted({*whole["required"], *always}),
        "$defs": parts,
    }


def _in_one_line(part: dict[str, Any]) -> dict[str, Any]:
    """Its description is a docstring, which some versions of Python keep indented."""
    return {**part, "description": " ".join(part["description"].split())}
