"""The files of the index: where they may lie, and whether they are ours."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from reenact.policy.paths import FOLDER

__all__ = ["drop", "index_files", "is_private", "make_private", "touch"]


def index_files(root: Path, environ: Mapping[str, str], *, words: bool) -> list[Path]:
    """Where the index of the project at ``root`` may lie, best first."""
    name = "search.sqlite3" if words else "search-plain.sqlite3"
    found = [root / FOLDER / "cache" / name] if (root / FOLDER).is_dir() else []
    own, shared, home = map(environ.get, ("REENACT_CONFIG_DIR", "XDG_CACHE_HOME", "HOME"))
    user = Path(own) if own else Path(shared) / "reenact" if shared else None
    if user is None and home:
        user = Path(home) / ".cache" / "reenact"
    if user is not None:
        which = hashlib.sha256(os.fsencode(root.absolute())).hexdigest()[:16]
        found.append(user / "search" / which / name)
    return found


def make_private(path: Path) -> None:
    """The folder of the index: nobody else looks into it, and git does not, either."""
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "its folder is not one of yours", str(folder))
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")
    if not os.path.lexists(path):
        touch(path)


def is_private(path: Path) -> bool:
    """Have we made it? What came with a repository may say anything, and others can read it."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    mine = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return mine and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def touch(path: Path) -> None:
    """Make an empty file, for its owner alone."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))


def drop(path: Path) -> None:
    """Away with the index, and with what an interrupted change has left."""
    for end in ("", "-journal"):
        path.with_name(f"{path.name}{end}").unlink(missing_ok=True)
