"""Refusal of file changes in a session that has scratch folders.

The guard's audit hook reports every change that Python code makes by a path: files that are opened
for writing, created, truncated, renamed, linked or deleted, and changes of their attributes. Such a
change is refused unless the file is

- below a scratch folder, after symbolic links and ``..`` are resolved,
- part of a recording that Reenact writes,
- a temporary file or folder that this session created with :mod:`tempfile` in the system's folder
  for temporary files, or something inside it,
- a log file of a :mod:`logging` handler, or a bytecode cache of an import,
- a file without a name, or a device such as ``/dev/null``.

The hook does not see writes to a file that is open already, nor files that a C library opens.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from reenact.boundaries.function_patches import Rebinding, like_builtin
from reenact.engine.patches.patch import Installable
from reenact.engine.session.session import Session
from reenact.hermetic import refusals
from reenact.hermetic.call_origin import calling_module
from reenact.hermetic.guard import holding

__all__ = ["CHECKS", "patches"]

_NO_FOLDER: Final = -1
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_UNNAMED: Final = getattr(os, "O_TMPFILE", 0)
_EXCLUSIVE: Final = os.O_CREAT | os.O_EXCL
_DEVICES: Final = frozenset(
    f"/dev/{name}" for name in ("null", "zero", "full", "tty", "random", "urandom")
)
_STREAMS: Final = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/usr/tmp")
"""Folders that :mod:`tempfile` tries if the environment does not set one."""

_THROUGH: Final = frozenset({"codecs", "contextlib", "genericpath", "io", "os", "posixpath"}) | {
    "pathlib",
    "pathlib._local",
    "pathlib._os",
    "shutil",
}
"""Modules that open files on behalf of their caller."""

_EXEMPT: Final = frozenset({"importlib._bootstrap_external", "logging", "logging.handlers"})
"""They keep bytecode caches and log files, which are not results of the program."""

_BETWEEN: Final = ("reenact.boundaries.", "reenact.hermetic.")
"""Modules of Reenact between the program, or a recording, and the system."""

_created: WeakKeyDictionary[Session, set[str]] = WeakKeyDictionary()
"""The temporary files and folders that a session has created, as real paths."""


class _Here(threading.local):
    folder = _NO_FOLDER


_here = _Here()
"""``folder``: the ``dir_fd`` of the ``os.open`` under way. Its audit event does not contain it."""


def _contained() -> Session | None:
    """Return the deciding session if it has scratch folders, also in a worker that acts for it."""
    session = holding()
    return None if session is None or session.settings.scratch is None else session


# Audit events


def _opens(path: Any, mode: Any, flags: Any, *_: Any) -> None:
    if not isinstance(flags, int) or not flags & _WRITES:
        return
    session = _contained()
    if session is None or (_UNNAMED and flags & _UNNAMED == _UNNAMED):
        return
    fd = path if isinstance(path, int) else _stream(path)
    if fd is not None:
        full = _of_descriptor(fd)
    else:
        full = _real(path, _here.folder)
        if full is not None and os.path.isdir(full):
            full = None  # the call fails, or its ``opener`` opens the file
    if full is None or full in _DEVICES:
        return
    creates = flags & _EXCLUSIVE == _EXCLUSIVE
    _check(session, full, f"opens {full} for writing", creates=creates)


def _makes_folder(path: Any, mode: Any, folder: int) -> None:
    session = _contained()
    full = None if session is None else _entry(path, folder)
    if session is not None and full is not None and not os.path.lexists(full):
        _check(session, full, f"creates the folder {full}", creates=True)


def _removes(path: Any, folder: int) -> None:
    session = _contained()
    full = None if session is None else _entry(path, folder)
    if session is not None and full is not None and os.path.lexists(full):
        _check(session, full, f"deletes {full}")


def _renames(source: Any, target: Any, source_folder: int, target_folder: int) -> None:
    session = _contained()
    if session is None:
        return
    old, new = _entry(source, source_folder), _entry(target, target_folder)
    if old is None or new is None or not os.path.lexists(old):
        return
    for full in (old, new):
        _check(session, full, f"renames {old} to {new}")


def _links(source: Any, target: Any, source_folder: int, target_folder: int) -> None:
    """Check a hard link. A second name in a scratch folder would make the file itself writable."""
    session = _contained()
    if session is None:
        return
    old, new = _real(source, source_folder), _entry(target, target_folder)
    if old is None or new is None or os.path.lexists(new):
        return
    for full in (old, new):
        _check(session, full, f"links {new} to {old}")


def _links_softly(source: Any, target: Any, folder: int) -> None:
    session = _contained()
    full = None if session is None else _entry(target, folder)
    if session is not None and full is not None and not os.path.lexists(full):
        _check(session, full, f"creates the symbolic link {full}")


def _changing(what: str) -> Callable[..., None]:
    """Return the check of an audit event whose first argument is a path or descriptor, and whose
    last one can be a folder."""

    def check(path: Any, *rest: Any) -> None:
        session = _contained()
        if session is None:
            return
        if isinstance(path, int):
            full = _of_descriptor(path)
        else:
            folder = rest[-1] if has_folder and isinstance(rest[-1], int) else _NO_FOLDER
            full = _real(path, folder)
        if full is not None and os.path.lexists(full):
            _check(session, full, f"{what} {full}")

    has_folder = what in _WITH_FOLDER
    return check


_WITH_FOLDER: Final = frozenset(
    {"changes the mode of", "changes the owner of", "changes the times of"}
)

CHECKS: Final[dict[str, Callable[..., None]]] = {
    "open": _opens,
    "os.chflags": _changing("changes the flags of"),
    "os.chmod": _changing("changes the mode of"),
    "os.chown": _changing("changes the owner of"),
    "os.link": _links,
    "os.mkdir": _makes_folder,
    "os.remove": _removes,
    "os.removexattr": _changing("changes the attributes of"),
    "os.rename": _renames,
    "os.rmdir": _removes,
    "os.setxattr": _changing("changes the attributes of"),
    "os.symlink": _links_softly,
    "os.truncate": _changing("truncates"),
    "os.utime": _changing("changes the times of"),
}
"""By the name of the audit event."""


# Functions without an audit event, or with an incomplete one


def patches() -> list[Installable]:
    """Return the patches of the module ``os``, not installed yet."""
    return [Rebinding(os, {"mkfifo": _making, "mknod": _making, "open": _opening}), _Supported()]


class _Supported:
    """Adds the replaced functions to ``os.supports_dir_fd``, which :mod:`shutil` and others check."""

    def __init__(self) -> None:
        self._added: list[Any] = []

    def install(self) -> None:
        self._added = [os.mkfifo, os.mknod, os.open]
        os.supports_dir_fd.update(self._added)

    def remove(self) -> None:
        os.supports_dir_fd.difference_update(self._added)
        self._added = []


def _opening(original: Any) -> Any:
    def open(_: Any, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is None:
            return int(original(path, flags, mode))
        before, _here.folder = _here.folder, dir_fd
        try:
            return int(original(path, flags, mode, dir_fd=dir_fd))
        finally:
            _here.folder = before

    return like_builtin(open, original)


def _making(original: Any) -> Any:
    def make(_: Any, path: Any, *args: Any, dir_fd: int | None = None, **more: Any) -> None:
        session = _contained()
        full = _entry(path, _NO_FOLDER if dir_fd is None else dir_fd) if session else None
        if session is not None and full is not None and not os.path.lexists(full):
            _check(session, full, f"creates {full}")
        original(path, *args, dir_fd=dir_fd, **more)

    return like_builtin(make, original)


# Paths


def _real(path: Any, folder: int = _NO_FOLDER) -> str | None:
    """Return the path with all links resolved, or None for an invalid path."""
    try:
        text = os.fsdecode(path)
        base = os.getcwd() if folder == _NO_FOLDER else os.readlink(f"/proc/self/fd/{folder}")
        return os.path.realpath(os.path.join(base, text))
    except (OSError, TypeError, ValueError):
        return None


def _entry(path: Any, folder: int = _NO_FOLDER) -> str | None:
    """Return the path of a folder entry, which can be a link itself."""
    try:
        text = os.fsdecode(path).rstrip(os.sep) or os.sep
    except TypeError:
        return None
    parent, name = os.path.split(text)
    if name in ("", os.curdir, os.pardir):
        return _real(text, folder)
    found = _real(parent or os.curdir, folder)
    return None if found is None else os.path.join(found, name)


def _stream(path: Any) -> int | None:
    """Return the descriptor of a path such as ``/dev/stdout``."""
    try:
        text = os.path.normpath(os.fsdecode(path))
    except TypeError:
        return None
    if text in _STREAMS:
        return _STREAMS[text]
    start, _, number = text.rpartition("/")
    is_descriptor = start in ("/dev/fd", "/proc/self/fd") and number.isdigit()
    return int(number) if is_descriptor else None


def _of_descriptor(fd: int) -> str | None:
    """Return the path of the regular file that is open as ``fd``, or None for a pipe, a socket, a
    terminal, or a file without a name."""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or not found.st_nlink:
            return None
        if sys.platform == "darwin":
            from fcntl import F_GETPATH, fcntl

            return os.fsdecode(fcntl(fd, F_GETPATH, bytes(1024)).rstrip(b"\0"))
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return None


def _is_below(full: str, folder: str) -> bool:
    return full == folder or full.startswith(folder.rstrip(os.sep) + os.sep)


# The decision


def _check(session: Session, full: str, does: str, *, creates: bool = False) -> None:
    """Return if the change is allowed. Raises :class:`DivergenceError`."""
    settings = session.settings
    if any(_is_below(full, os.path.realpath(folder)) for folder in settings.scratch or ()):
        return
    created = _created.setdefault(session, set())
    if any(_is_below(full, one) for one in created):
        return
    who = calling_module(_THROUGH)
    if who in _EXEMPT or _is_own_file():
        return
    if creates and who == "tempfile" and _is_temporary(full) and not os.path.lexists(full):
        created.add(full)
        return
    refusals.answer(session, refusals.file_change(full, does, _folder(full)), _nothing)


def _nothing() -> tuple[str, ...]:
    """Return no names, because no boundary covers changes of files."""
    return ()


def _is_own_file() -> bool:
    """Return whether Reenact itself writes a recording or its compiled patterns."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name not in _THROUGH and not name.startswith(_BETWEEN):
            module = sys.modules.get(name)
            genuine = module is not None and vars(module) is frame.f_globals
            return genuine and name.startswith(("reenact.store.", "reenact.policy.redaction.gate"))
        frame = frame.f_back
    return False


def _is_temporary(full: str) -> bool:
    """Return whether the file is in a folder in which :mod:`tempfile` creates files by default."""
    module = sys.modules.get("tempfile")
    named = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    chosen = getattr(module, "tempdir", None)
    folders = [chosen] if chosen else [*filter(None, named), *_TEMPORARY]
    parent = os.path.dirname(full)
    return any(parent == os.path.realpath(os.fsdecode(folder)) for folder in folders)


def _folder(full: str) -> str:
    return os.path.dirname(full) or os.sep
