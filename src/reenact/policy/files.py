"""Reading one policy file: whole or not at all, and everything that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec

from reenact.errors import PolicyInvalid, ValueRefused
from reenact.format.canonical import decode, digest
from reenact.policy.places import FOLDER
from reenact.policy.segments import unsafe
from reenact.policy.shape import problems, read

__all__ = ["Finding", "Loaded", "content_of", "load_file", "raise_first"]

S = TypeVar("S", bound=msgspec.Struct)

_LARGEST = 1 << 20


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong (``error``) or odd (``warning``) in the files of a policy.

    ``file`` is relative to the root; ``path`` is where in it, ``$`` being the whole.
    """

    severity: Literal["error", "warning"]
    file: str
    path: str
    message: str
    hint: str = ""

    @property
    def place(self) -> str:
        """File and path, for people."""
        return self.file if self.path == "$" else f"{self.file} {self.path}"

    def to_error(self) -> PolicyInvalid:
        """The same as an exception."""
        return PolicyInvalid(f"{self.place}: {self.message}", place=self.place, hint=self.hint)


class Loaded(msgspec.Struct, Generic[S], frozen=True):
    """A file that was read. ``stated`` are the dotted names of the fields that it has."""

    value: S
    raw: dict[str, Any]
    digest: str
    file: str
    stated: frozenset[str]


def raise_first(findings: list[Finding]) -> None:
    """Raise :class:`PolicyInvalid` for the first error; warnings stop nobody."""
    for finding in findings:
        if finding.severity == "error":
            raise finding.to_error()


def load_file(
    root: Path, relative: str, kind: type[S], schema: str
) -> tuple[Loaded[S] | None, list[Finding]]:
    """Read ``relative``, a path below the folder ``.reenact``, as a file of this kind.

    The value is there when no finding is an error. The digest is over the parsed JSON, so that
    reformatting a file changes nothing. Raises nothing.
    """
    file = f"{FOLDER}/{relative}"
    raw, reason, hint = _parsed(root, relative)
    if reason:
        return None, [Finding("error", file, "$", reason, hint)]
    found = list(_version_findings(raw, file, schema))
    if not found:
        found = [
            Finding("error", file, one.path, one.message, one.hint) for one in problems(raw, kind)
        ]
    if found:
        return None, found
    stated = frozenset(_names(raw, ""))
    return Loaded(read(raw, kind), raw, digest(raw), file, stated), []


def _parsed(root: Path, relative: str) -> tuple[Any, str, str]:
    """The JSON value; or the reason why there is none, and a hint."""
    reason = unsafe(relative)
    if reason is not None:
        return None, f"the path {relative[:200]!r} is refused: {reason}", "name a file in .reenact"
    try:
        encoded = content_of(root / FOLDER, relative)
    except FileNotFoundError:
        return None, "there is no such file", "reenact policy init writes a working set"
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return None, f"it cannot be read: {reason}", "check the file and who may read it"
    try:
        return decode(encoded), "", ""
    except ValueRefused as refused:
        return None, refused.message.removeprefix("$: "), "see `reenact policy init` for an example"


def content_of(folder: Path, relative: str) -> bytes:
    """The bytes of a regular file inside ``folder``. Raises OSError, or ValueError with a reason."""
    path = (folder / relative).resolve(strict=True)
    if not path.is_relative_to(folder.resolve()):
        raise ValueError("a symlink leads out of its folder")
    if not path.is_file():
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"it has more than {_LARGEST} bytes")
    return content


def _version_findings(raw: Any, file: str, schema: str) -> Iterator[Finding]:
    """Of a file of another kind or version nothing else can be said."""
    if not isinstance(raw, dict):
        yield Finding("error", file, "$", "it is not a JSON object", "see `reenact policy init`")
    elif "schemaVersion" not in raw:
        hint = f'add "schemaVersion": "{schema}"'
        yield Finding("error", file, "$", "the field schemaVersion is missing", hint)
    elif raw["schemaVersion"] != schema:
        message = f"this is not a file of version {schema}"
        hint = f'expected "schemaVersion": "{schema}"; a later one needs a later reenact'
        yield Finding("error", file, "$.schemaVersion", message, hint)


def _names(raw: dict[str, Any], before: str) -> Iterator[str]:
    for name, item in raw.items():
        yield f"{before}{name}"
        if isinstance(item, dict):
            yield from _names(item, f"{before}{name}.")
