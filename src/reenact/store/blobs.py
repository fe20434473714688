"""Large payloads, stored once under their own digest."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from reenact.errors import RecordingDamaged
from reenact.format.canonical import digest_bytes
from reenact.store.files import PRIVATE_FILE, make_private_folder, read_regular, write_whole

__all__ = ["Blobs"]

_HEX = frozenset("0123456789abcdef")
_counter = itertools.count()


class Blobs:
    """A folder of ``<first two hex>/<digest>``. Safe for several processes at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        """Return the path of a blob. Refuses anything that is not a digest, because it names a
        file.
        """
        algorithm, _, name = digest.partition(":")
        if algorithm != "sha256" or len(name) != 64 or not _HEX.issuperset(name):
            raise RecordingDamaged(
                f"{digest[:80]!r} is not a digest", place=f"blob {digest[:80]!r}"
            )
        return self.folder / name[:2] / name

    def put(self, content: bytes, *, sync: bool = False) -> tuple[str, Path | None]:
        """Store ``content``. Returns its digest and, if it was not there before, its file."""
        digest = digest_bytes(content)
        target = self.path(digest)
        name = str(target)
        if os.path.exists(name):
            return digest, None
        beside = f"{name}.{os.getpid()}-{next(_counter)}.tmp"
        try:
            fd = _create(beside)
            try:
                write_whole(fd, content, 0)
                if sync:
                    os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(beside, name)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        return digest, target

    def get(self, digest: str) -> bytes:
        """The content, verified. Raises :class:`RecordingDamaged`."""
        try:
            content = read_regular(self.path(digest))
        except OSError as error:
            raise _unreadable(digest, error) from None
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise RecordingDamaged(
                f"the content of blob {digest} does not match its name",
                place=f"blob {digest}",
                hint="restore the blobs folder from a copy of the complete recording",
            )
        return content

    def size(self, digest: str) -> int:
        """The size of the content. Raises :class:`RecordingDamaged` when it cannot be read."""
        try:
            return self.path(digest).stat().st_size
        except OSError as error:
            raise _unreadable(digest, error) from None

    def files(self) -> Iterator[Path]:
        """Every file below the folder, in a stable order."""
        if self.folder.is_dir():
            yield from sorted(path for path in self.folder.rglob("*") if not path.is_dir())


def _unreadable(digest: str, error: OSError) -> RecordingDamaged:
    return RecordingDamaged(
        f"blob {digest} cannot be read: {error.strerror}",
        place=f"blob {digest}",
        hint="restore the blobs folder from a copy of the complete recording",
    )


def _create(name: str) -> int:
    """Open a new file; its folder is made when it is the first in it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(name, flags, PRIVATE_FILE)
    except FileNotFoundError:
        folder = Path(name).parent
        make_private_folder(folder.parent)
        make_private_folder(folder)
        return os.open(name, flags, PRIVATE_FILE)
