"""Sealed values: what redaction took out of an answer, readable by the owner of a key alone.

The key is a file of 32 random bytes in the user's own configuration folder, never in a recording,
a tape or an export. Each value is sealed by itself with AES-256-GCM; the place it belongs to is
authenticated with it, so that a box cannot be moved. Plain text never touches the disk.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reenact._system import entropy
from reenact.errors import ExtraMissing, RecordingDamaged, SinkUnwritable, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["KEY_SIZE", "Seal", "key_path", "load_key", "make_key", "own_seal"]

KEY_SIZE = 32
"""Bytes of a key."""

_NONCE_SIZE = 12
_FILE = "seal.key"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def key_path(environ: Mapping[str, str]) -> Path:
    """Where the key of this user is kept. An empty variable counts as unset; ``~`` is HOME's."""
    own = environ.get("REENACT_CONFIG_DIR")
    if own:
        return Path(own) / _FILE
    shared = environ.get("XDG_CONFIG_HOME")
    if shared:
        return Path(shared) / "reenact" / _FILE
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".config" / "reenact" / _FILE


def load_key(path: Path) -> bytes | None:
    """The key at ``path``, or None when there is no file.

    Raises :class:`UsageError` when others may read the file, when it is not a key, or when it
    cannot be read.
    """
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            key = file.read(KEY_SIZE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(
            f"the sealing key {path} cannot be read: {error.strerror}",
            hint="make it readable for you, or switch sealing off",
            path=str(path),
        ) from error
    if os.name == "posix" and mode & _OTHERS:
        raise UsageError(
            f"the sealing key {path} can be read by others (mode {stat.S_IMODE(mode):04o})",
            hint=f"chmod 600 {path}",
            path=str(path),
        )
    if len(key) != KEY_SIZE:
        raise UsageError(
            f"the sealing key {path} is not {KEY_SIZE} bytes long",
            hint="move it away: the next capture makes a new one (older boxes stay closed)",
            path=str(path),
        )
    return key


def make_key(path: Path) -> bytes:
    """The key at ``path``, made now if there is none. Processes that race agree on one key.

    The key is written and synced beside and then *linked* to its name, which fails when the name
    is taken: no process ever sees half a key, and the first link wins. The file is 0600, folders
    that have to be made are 0700. Raises :class:`SinkUnwritable`, and what :func:`load_key` raises.
    """
    known = load_key(path)
    if known is not None:
        return known
    try:
        _make_folder(path.parent)
        _publish(entropy(KEY_SIZE), path)
    except OSError as error:
        raise SinkUnwritable(
            f"the sealing key {path} cannot be written: {error.strerror}",
            hint="set REENACT_CONFIG_DIR to a folder of your own, or switch sealing off",
            path=str(path),
        ) from error
    key = load_key(path)
    if key is None:
        raise SinkUnwritable(f"the sealing key {path} vanished while it was made", path=str(path))
    return key


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _publish(key: bytes, path: Path) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.{entropy(8).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            os.write(descriptor, key)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _link(beside, path, key)
    finally:
        beside.unlink(missing_ok=True)


def _link(beside: Path, path: Path, key: bytes) -> None:
    try:
        os.link(beside, path)
    except FileExistsError:
        return  # another process was first: its key is the key
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        _create(path, key)


def _create(path: Path, key: bytes) -> None:
    """For file systems without hard links: exclusive creation, one small write."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return  # as above
    try:
        os.write(descriptor, key)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Seal:
    """Closes and opens boxes with one key. ``key_id`` tells keys apart and is safe to write.

    Raises :class:`ExtraMissing` without the package ``cryptography`` and :class:`UsageError` for a
    key of another length.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_SIZE:
            raise UsageError(f"a sealing key has {KEY_SIZE} bytes, this one {len(key)}")
        self.key_id = hashlib.sha256(b"reenact-seal" + key).hexdigest()[:16]
        self._cipher = _cipher(key)

    def __repr__(self) -> str:
        return f"Seal(key_id={self.key_id!r})"

    def close(self, plain: bytes, context: bytes) -> dict[str, str]:
        """A box that opens only with this key and the same ``context``. Each has a fresh nonce."""
        nonce = entropy(_NONCE_SIZE)
        box = self._cipher.encrypt(nonce, plain, context)
        return {"nonce": _text(nonce), "box": _text(box)}

    def open(self, box: Mapping[str, str], context: bytes) -> bytes:
        """What is in the box. Raises :class:`RecordingDamaged` when it is not what was closed."""
        from cryptography.exceptions import InvalidTag

        try:
            nonce, sealed = (b64decode(box[part], validate=True) for part in ("nonce", "box"))
            return self._cipher.decrypt(nonce, sealed, context)
        except (InvalidTag, KeyError, TypeError, ValueError, Base64Error):
            # From None: a chained error would show the box, and a context that names the place.
            raise RecordingDamaged(
                "a sealed value does not open: it was changed, moved, or sealed with another key",
                place="sealed",
                hint=f"this is key {self.key_id}",
            ) from None


def _cipher(key: bytes) -> AESGCM:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise ExtraMissing("sealing", "seal") from None
    return AESGCM(key)


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def own_seal() -> Seal | None:
    """The user's own key, made on first use. Without the extra, values are not sealed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        return None
    path = key_path(dict(os.environ))
    return Seal(load_key(path) or make_key(path))
