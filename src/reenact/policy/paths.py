"""Project root, world and cassette paths, and the relative paths that are safe on every system.

A name comes from a manifest, a marker or a policy, which other people can have written. It must
resolve to the same path below its folder on every system: where backslashes separate folders, where
the file system folds or normalises names, and where some names are devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from reenact.errors import PathRefused, UsageError, did_you_mean
from reenact.policy.patterns import lazy_pattern

__all__ = [
    "FIXTURES",
    "FOLDER",
    "INDEX",
    "LONGEST",
    "LONGEST_SEGMENT",
    "WORLDS",
    "cassette_path",
    "find_root",
    "fixture_folder",
    "has_policies",
    "rrbin_of",
    "rrbin_path",
    "unsafe_reason",
    "world",
]

FIXTURES = "REENACT_FIXTURE_ROOT"
"""The variable that names the fixture root, for sessions that do not say it."""

FOLDER = ".reenact"
"""The folder of policies and cassettes below the root."""

INDEX = "index.json"
"""The file in it that names the policies."""

WORLDS = ("ci", "local", "production", "staging", "test")
"""The worlds that have a meaning without an index that names them."""

_TAPE = ".jsonl"
_RRBIN = ".rrbin"
_X07_FOLDER = ".x07_rr"


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
    """Return whether there are policies. Deleting the index must not unpin the policies next to it."""
    folder = root / FOLDER
    return any((folder / name).exists() for name in (INDEX, "policies"))


def world(environ: Mapping[str, str], under_pytest: bool, known: Iterable[str] = ()) -> str:
    """Return ``REENACT_WORLD``, else ``ci`` if ``CI`` is set, else ``test`` under pytest, else
    ``local``.

    ``known`` are further worlds of the index. Only the variable leads to ``production``. Raises
    :class:`UsageError` for an unknown world.
    """
    said = environ.get("REENACT_WORLD", "")
    if said:
        worlds = {*WORLDS, *known}
        if said not in worlds:
            raise UsageError(
                f"REENACT_WORLD is {said[:64]!r}, which is not a known world",
                hint=f"{did_you_mean(said, worlds)} (policies in the index can define others)",
            )
        return said
    if environ.get("CI", ""):
        return "ci"
    return "test" if under_pytest else "local"


def cassette_path(
    root: Path, name: str, *, fixture_root: str | Path | None = None, writing: bool
) -> Path:
    """Return the path of the cassette ``name``: a tape below the root's cassettes, or the fixture's
    ``rr``.

    ``.jsonl`` is added to a name without it. A name that ends in ``.rrbin`` is read from the tape
    that ``reenact import`` created from that file. :func:`fixture_folder` describes
    ``fixture_root``: cassettes are read from its ``rr``, or from itself if it has no such folder,
    and always written to ``rr``. Nothing is created. Raises :class:`PathRefused` with the reason.
    The path is resolved now; a user who can replace folders later can redirect it.
    """
    file = name if name.endswith(_TAPE) else f"{name}{_TAPE}"
    if name.endswith(_RRBIN):
        if writing:
            raise PathRefused(
                f"{name[:200]!r} is an X07 cassette, which a session does not write",
                hint=f"use the name {name.removesuffix(_RRBIN)[:200]!r}, or reenact.rr",
                path=name[:200],
                reason="a session writes tapes",
            )
        file = name.removesuffix(_RRBIN) + _TAPE
    return _cassette(root, name, file, fixture_root, writing=writing)


def rrbin_path(root: Path, name: str, *, fixture_root: str | Path | None = None) -> Path:
    """Return the path of the X07 cassette ``name``, a name that ends in ``.rrbin``.

    An existing cassette is found in the folders from which :func:`cassette_path` reads, and without
    ``fixture_root`` also in the ``.x07_rr`` folder of the root. A new cassette goes to the folder for
    new tapes, or to ``.x07_rr`` if the root has that folder. Raises :class:`PathRefused`.
    """
    found = _cassette(root, name, name, fixture_root, writing=False)
    if found.exists():
        return found
    x07 = root / _X07_FOLDER
    if fixture_root is None and x07.is_dir():
        return _inside(x07 / name, x07, root, name)
    return _cassette(root, name, name, fixture_root, writing=True)


def rrbin_of(tape: Path) -> Path | None:
    """Return the existing X07 cassette that a missing ``tape`` can be imported from."""
    beside = tape.with_suffix(_RRBIN)
    if beside.exists():
        return beside
    for folder in tape.parents:
        if folder.name == "cassettes" and folder.parent.name == FOLDER:
            found = folder.parent.parent / _X07_FOLDER / beside.relative_to(folder)
            return found if found.exists() else None
    return None


def _cassette(
    root: Path, name: str, file: str, fixture_root: str | Path | None, *, writing: bool
) -> Path:
    reason = unsafe_reason(name)
    if reason is not None:
        raise _refused(name, reason)
    if Path(file).name in (_TAPE, _RRBIN):
        raise _refused(name, f"expected a name before {Path(file).name}")
    if fixture_root is None:
        top, base = root, root / FOLDER / "cassettes"
    else:
        top = fixture_folder(root, fixture_root)
        base = top / "rr" if writing or (top / "rr").is_dir() else top
    return _inside(base / file, base, top, name)


def _inside(path: Path, base: Path, top: Path, name: str) -> Path:
    if not _leads_inside(path, base) or not _leads_inside(base, top):
        raise _refused(name, f"a symlink leads out of {base}")
    return path


def fixture_folder(base: Path, fixture_root: str | Path) -> Path:
    """Return the fixture folder that ``fixture_root`` names, below ``base`` unless it is absolute.

    It can be missing. Raises :class:`PathRefused` if it leads out of ``base``, is ``base`` itself
    or above it, or is not a folder.
    """
    top = base / fixture_root
    reason = _unfit(base, str(fixture_root), top)
    if reason is not None:
        raise PathRefused(
            f"{str(fixture_root)[:200]!r} cannot be a fixture root: {reason}",
            hint="give fixtures a folder of their own, such as tests/fixtures/weather",
            path=str(fixture_root)[:200],
            reason=reason,
        )
    return top


def _unfit(base: Path, said: str, top: Path) -> str | None:
    """Return why a fixture root is invalid. An absolute path is allowed anywhere, for tests that
    create their fixtures.
    """
    if "\0" in said:
        return "it has a NUL"
    if not said.startswith("/"):
        reason = unsafe_reason(said.removesuffix("/"))
        if reason is not None:
            return reason
        if not _leads_inside(top, base):
            return f"a symlink leads out of {base}"
    if _leads_inside(base, top):
        return f"it is {base} itself, or above it"
    return "it is not a folder" if top.exists() and not top.is_dir() else None


def _leads_inside(path: Path, base: Path) -> bool:
    try:
        try:
            found = path.resolve(strict=True)
        except (FileNotFoundError, NotADirectoryError):
            found = path.resolve()
        return found.is_relative_to(base.resolve())
    except (OSError, RuntimeError):  # a loop of symlinks leads nowhere
        return False


def _refused(name: str, reason: str) -> PathRefused:
    return PathRefused(
        f"{name[:200]!r} cannot be a cassette: {reason}",
        hint="a name such as weather or api/weather; session(tape=PATH) opens a file anywhere",
        path=name[:200],
        reason=reason,
    )


LONGEST: Final = 1_000
"""Bytes of a whole path. File systems end at 1,024 or 4,096, folders above it included."""

LONGEST_SEGMENT: Final = 200
"""Bytes of one segment. File systems allow 255, and files next to a cassette have longer names."""

_OURS = (".reenact", ".x07_")
_DRIVE = lazy_pattern(r"[A-Za-z]:")
_DEVICE = lazy_pattern(r"(con|prn|aux|nul|(com|lpt)[0-9¹²³])\s*(\..*)?")
_UNSEEN = ("Cc", "Cf", "Zl", "Zp")
"""Categories of characters that steer what is shown, or end a line."""

_JOINERS = "\u200c\u200d"
"""Unseen, and needed to write Persian, Hindi and some emoji."""

_ALIKE: Final = {
    **dict.fromkeys("\u2044\u2215\u29f8\u2571\u338d", "/"),
    **dict.fromkeys("\u2216\u29f5\u29f9\u2572", "\\"),
}
"""Characters that look like a separator; others are found because they stand for one."""


def unsafe_reason(name: str) -> str | None:
    """Why ``name`` is not a path that stays below a folder, on any system; None when it is."""
    if not name:
        return "it is empty"
    if "\0" in name or "\\" in name:
        return "it has a NUL" if "\0" in name else "it has a backslash"
    if name.startswith("/"):
        return "it is absolute"
    if _DRIVE.match(name):
        return "it starts with a drive letter"
    if not name.isascii() or not name.isprintable():
        reason = _odd(name)
        if reason is not None:
            return reason
    if len(name.encode()) > LONGEST:
        return f"it has more than {LONGEST} bytes"
    return next(filter(None, map(_unsafe_segment, name.split("/"))), None)


def _odd(name: str) -> str | None:
    """Names in plain letters, which nearly all are, do not come here."""
    from unicodedata import category, normalize

    for char in name:
        if category(char) == "Cs":
            return "it is not UTF-8"
        if category(char) in _UNSEEN and char not in _JOINERS:
            return f"it has a character that cannot be seen, U+{ord(char):04X}"
        alike = _ALIKE.get(char) or next((o for o in normalize("NFKC", char) if o in "/\\"), "")
        if char != "/" and alike:
            return f"it has U+{ord(char):04X}, which looks like {alike!r}"
    return None


def _unsafe_segment(segment: str) -> str | None:
    if segment in ("", ".", ".."):
        return f"it has the segment {segment!r}" if segment else "it has an empty segment"
    folded = segment.lower() if segment.isascii() else _folded(segment)
    if folded in (".", ".."):
        return f"it has the segment {segment!r}, which looks like {folded!r}"
    if folded.startswith(_OURS):
        return f"a segment starts with {next(o for o in _OURS if folded.startswith(o))}"
    if folded[-1:] in (".", " "):
        return "a segment ends with a dot or a space, which Windows leaves out"
    if _DEVICE.fullmatch(folded):
        return f"{segment[:20]!r} is the name of a device on Windows"
    if len(segment.encode()) > LONGEST_SEGMENT:
        return f"a segment has more than {LONGEST_SEGMENT} bytes"
    return None


def _folded(segment: str) -> str:
    """As file systems see it that look past case, forms and joiners."""
    from unicodedata import normalize

    without = segment.translate(dict.fromkeys(map(ord, _JOINERS)))
    return normalize("NFKC", without).casefold()
