"""Where things lie: the root of a project, the world it runs in, and its cassettes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from reenact.errors import PathRefused, UsageError
from reenact.policy.nearest import did_you_mean
from reenact.policy.patterns import late

__all__ = [
    "FOLDER",
    "INDEX",
    "WORLDS",
    "cassette_path",
    "find_root",
    "has_policies",
    "unsafe",
    "world",
]

FOLDER = ".reenact"
"""The folder of policies and cassettes below the root."""

INDEX = "index.json"
"""The file in it that names the policies."""

WORLDS = ("ci", "local", "production", "staging", "test")
"""The worlds that have a meaning without an index that names them."""

_TAPE = ".jsonl"
_OURS = (".reenact", ".x07_")
_DRIVE = late(r"[A-Za-z]:")


def find_root(start: Path, environ: Mapping[str, str]) -> Path:
    """``REENACT_ROOT``, else the nearest ancestor of ``start`` with a ``.reenact`` folder, else it.

    The answer is absolute. Raises :class:`UsageError` when the variable names no folder.
    """
    start = start.absolute()
    said = environ.get("REENACT_ROOT", "")
    if not said:
        ancestors = (start, *start.parents)
        return next((one for one in ancestors if (one / FOLDER).is_dir()), start)
    if "\0" in said or not (start / said).is_dir():
        raise UsageError(
            f"REENACT_ROOT is {said!r}, which is not a folder",
            hint="set it to the folder that holds .reenact, or unset it",
        )
    return start / said


def has_policies(root: Path) -> bool:
    """An index that was deleted must not free the policies beside it from their pins."""
    folder = root / FOLDER
    return any((folder / name).exists() for name in (INDEX, "policies"))


def world(environ: Mapping[str, str], under_pytest: bool, known: Iterable[str] = ()) -> str:
    """``REENACT_WORLD``, else ``ci`` when ``CI`` is set, else ``test`` under pytest, else ``local``.

    ``known`` are the worlds that the index names besides ours. Nothing but the variable leads to
    ``production``. Raises :class:`UsageError` for a world that nobody knows.
    """
    said = environ.get("REENACT_WORLD", "")
    if said:
        worlds = {*WORLDS, *known}
        if said not in worlds:
            raise UsageError(
                f"REENACT_WORLD is {said[:64]!r}, which is no world",
                hint=f"{did_you_mean(said, worlds)} (a policy in the index may name others)",
            )
        return said
    if environ.get("CI", ""):
        return "ci"
    return "test" if under_pytest else "local"


def cassette_path(
    root: Path, name: str, *, fixture_root: Path | None = None, writing: bool
) -> Path:
    """Where the cassette ``name`` lies: a tape below the root's cassettes, or the fixture's ``rr``.

    A name without ``.jsonl`` gets it. A ``fixture_root`` that is not absolute is below ``root``.
    Nothing is created. Raises :class:`PathRefused` with the reason. What a name leads to is looked
    up now; somebody who can replace folders later can lead it elsewhere.
    """
    reason = unsafe(name)
    if reason is not None:
        raise _refused(name, reason)
    file = name if name.endswith(_TAPE) else f"{name}{_TAPE}"
    if Path(file).name == _TAPE:
        raise _refused(name, f"there is no name before {_TAPE}")
    if fixture_root is None:
        top, base = root, root / FOLDER / "cassettes"
    else:
        top = _fixture(root, fixture_root)
        base = top / "rr" if writing or (top / "rr").is_dir() else top
    path = base / file
    if not _leads_inside(path, base) or not _leads_inside(base, top):
        raise _refused(name, f"a symlink leads out of {base}")
    return path


def _fixture(root: Path, fixture_root: Path) -> Path:
    top = root / fixture_root
    if root.resolve().is_relative_to(top.resolve()):
        raise PathRefused(
            f"the fixture root {fixture_root} is the root itself, or above it",
            hint="give fixtures a folder of their own, such as tests/fixtures/weather",
            path=str(fixture_root),
        )
    return top


def _leads_inside(path: Path, base: Path) -> bool:
    try:
        return path.resolve().is_relative_to(base.resolve())
    except (OSError, RuntimeError):  # a loop of symlinks leads nowhere
        return False


def _refused(name: str, reason: str) -> PathRefused:
    return PathRefused(
        f"{name[:200]!r} cannot be a cassette: {reason}",
        hint="a name such as weather or api/weather; session(tape=PATH) opens a file anywhere",
        path=name[:200],
        reason=reason,
    )


def unsafe(name: str) -> str | None:
    """Why ``name`` is not a path that stays below a folder, on any system; None when it is."""
    if not name:
        return "it is empty"
    for part, reason in (("\0", "it has a NUL"), ("\\", "it has a backslash")):
        if part in name:
            return reason
    if name.startswith("/"):
        return "it is absolute"
    if _DRIVE.match(name):
        return "it starts with a drive letter"
    return next(filter(None, map(_unsafe_segment, name.split("/"))), None)


def _unsafe_segment(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return f"it has the segment {segment!r}" if segment else "it has an empty segment"
    if segment.lower().startswith(_OURS):
        return f"a segment starts with {next(o for o in _OURS if segment.lower().startswith(o))}"
    return None
