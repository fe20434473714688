"""Sealed values: redacted parts of results, encrypted for the owner of a key.

The key is a file of 32 random bytes in the user's configuration folder, never in a recording, a tape
or an export. Each value is encrypted separately with AES-256-GCM. Its location in the recording is
authenticated too, so a sealed value cannot be moved. Plain text is never written to disk.

The ``sealed`` file holds the values that a replay needs, one per line.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from reenact._system import entropy
from reenact.errors import ExtraMissing, RecordingDamaged, SinkUnwritable, UsageError, ValueRefused
from reenact.format.canonical import decode, digest_bytes, exact, plain
from reenact.format.event import Data, Draft, Event
from reenact.format.json_path import lookup, parse
from reenact.store.files import close_descriptor, hold_descriptor, write_whole
from reenact.store.log import whole_lines

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from reenact.policy.redaction.redactor import Mark

__all__ = [
    "KEY_SIZE",
    "Restored",
    "Seal",
    "SealedLine",
    "SealedValues",
    "key_path",
    "load_key",
    "make_key",
    "own_seal",
    "read_sealed",
    "restore",
]

KEY_SIZE = 32
"""Bytes of a key."""

_NONCE_SIZE = 12
_FILE = "seal.key"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def key_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's key. An empty variable counts as unset; ``~`` is HOME."""
    own = environ.get("REENACT_CONFIG_DIR")
    if own:
        return Path(own) / _FILE
    shared = environ.get("XDG_CONFIG_HOME")
    if shared:
        return Path(shared) / "reenact" / _FILE
    home = environ.get("HOME")
    return (Path(home) if home else Path.home()) / ".config" / "reenact" / _FILE


def load_key(path: Path) -> bytes | None:
    """Return the key at ``path``, or None if the file is missing.

    Raises :class:`UsageError` if other users can read the file, if it is not a key, or if it cannot
    be read.
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
    """Return the key at ``path`` and create it if it is missing. Racing processes get the same key.

    The key is written to a temporary file, synced and then *linked* to its name, which fails if the
    name exists. No process therefore reads half a key, and the first link wins. The file has mode
    0600, new folders have mode 0700. Raises :class:`SinkUnwritable` and the errors of
    :func:`load_key`.
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
    """Encryption of values with one key. ``key_id`` distinguishes keys and is safe to write.

    The package ``cryptography`` is imported on first use, because most programs seal nothing and
    the import takes as long as starting an interpreter. Without it, :class:`ExtraMissing` is raised
    immediately. Raises :class:`UsageError` for a key of the wrong length.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_SIZE:
            raise UsageError(f"a sealing key has {KEY_SIZE} bytes, this one {len(key)}")
        if not _can_seal():
            raise ExtraMissing("sealing", "seal")
        self.key_id = hashlib.sha256(b"reenact-seal" + key).hexdigest()[:16]
        self._key = key

    @cached_property
    def _cipher(self) -> AESGCM:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:  # an incomplete installation
            raise ExtraMissing("sealing", "seal") from None
        return AESGCM(self._key)

    def __repr__(self) -> str:
        return f"Seal(key_id={self.key_id!r})"

    def close(self, plain: bytes, context: bytes) -> dict[str, str]:
        """A box that opens only with this key and the same ``context``. Each has a fresh nonce."""
        nonce = entropy(_NONCE_SIZE)
        box = self._cipher.encrypt(nonce, plain, context)
        return {"nonce": _text(nonce), "box": _text(box)}

    def open(self, box: Mapping[str, str], context: bytes) -> bytes:
        """Return the decrypted value. Raises :class:`RecordingDamaged` if it was modified."""
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


def _can_seal() -> bool:
    """Return True if ``cryptography`` can be imported. Only its small top-level package is loaded."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        return False
    return True


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def own_seal() -> Seal | None:
    """The user's own key, made on first use. Without the extra, values are not sealed."""
    if not _can_seal():
        return None
    path = key_path(dict(os.environ))
    return Seal(load_key(path) or make_key(path))


class SealedLine(msgspec.Struct, frozen=True):
    """``key`` is the id of the key, not the key. The box is bound to its capture, its path and the
    lane, time and payload of the event it was taken out of, so it fits no other."""

    seq: int
    path: str
    key: str
    nonce: str
    box: str


_decode_line = msgspec.json.Decoder(SealedLine)


class SealedValues:
    """The writer's end. Created only when there is a first value to seal."""

    def __init__(self, path: Path, seal: Seal, capture_id: str) -> None:
        self._path = path
        self._seal = seal
        self._capture_id = capture_id
        self._fd = -1
        self.count = 0

    @property
    def key_id(self) -> str:
        return self._seal.key_id

    def add(self, seq: int, event: Draft, digest: bytes, marks: tuple[Mark, ...]) -> None:
        """Seal what was taken out of ``event``, whose redacted payload has ``digest``."""
        if self._fd < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._fd = hold_descriptor(os.open(self._path, flags, 0o600))
        of = (self._capture_id, event.lane, event.ts, f"sha256:{digest.hex()}")
        lines = b"".join(self._line(seq, of, mark) for mark in marks)
        write_whole(self._fd, lines, os.fstat(self._fd).st_size)
        self.count += len(marks)

    def _line(self, seq: int, of: _Of, mark: Mark) -> bytes:
        box = self._seal.close(exact([mark.original]), _context(of, mark.path))
        return msgspec.json.encode(SealedLine(seq, mark.path, self._seal.key_id, **box)) + b"\n"

    def sync(self) -> None:
        if self._fd >= 0:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            close_descriptor(self._fd)
            self._fd = -1


_Of = tuple[str, str, int, str]
"""Capture, lane, time stamp, digest of the redacted payload: what a merge leaves of an event."""


def _context(of: _Of, path: str) -> bytes:
    return exact([*of, path])


def read_sealed(path: Path, *, skip_damage: bool = False) -> Iterator[SealedLine]:
    """The lines of a sealed file; a missing file has none.

    With ``skip_damage`` what cannot be read is left out: it could not be opened, either.
    """
    if not path.exists():
        return
    for number, line in enumerate(whole_lines(path), 1):
        try:
            yield _decode_line.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if skip_damage:
                continue
            raise RecordingDamaged(
                f"{path.name} line {number}: {error}", place=f"{path.name} line {number}"
            ) from None


class Restored(msgspec.Struct, frozen=True):
    """The data of an event with its sealed values back in place.

    ``absent`` are the paths where the placeholder had to stay, because the key (or the sealed
    file) is not at hand.
    """

    data: Data
    absent: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Restored(absent={self.absent!r})"


def restore(event: Event, lines: Iterable[SealedLine], seal: Seal | None) -> Restored:
    """Put back what redaction took out of what the program received.

    Raises :class:`RecordingDamaged` when a box does not belong to this event.
    """
    marked = event.data.get("redacted")
    if not isinstance(marked, list):
        return Restored(event.data)
    boxes = {line.path: line for line in lines if seal is not None and line.key == seal.key_id}
    payload = event.payload
    of = (event.capture_id, event.lane, event.ts, digest_bytes(payload))
    data: Data = plain(decode(payload))  # a copy: the event keeps its placeholders
    absent = []
    for path in marked:
        if seal is not None and path in boxes:
            _put(data, path, _unseal(boxes[path], seal, of))
        else:
            absent.append(path)
    return Restored(data, tuple(absent))


def _put(data: Data, text: str, value: Any) -> None:
    path = parse(text)
    if path:
        owner = lookup(data, path[:-1])
        owner[path[-1]] = value
    else:
        data.clear()
        data.update(value)


def _unseal(line: SealedLine, seal: Seal, of: _Of) -> Any:
    """The value that was taken out. Raises :class:`RecordingDamaged` when the box is not its own."""
    opened = seal.open({"nonce": line.nonce, "box": line.box}, _context(of, line.path))
    try:
        [value] = plain(decode(opened))
    except (ValueRefused, ValueError):
        raise RecordingDamaged(
            f"the sealed value of event {line.seq} at {line.path} is not a value",
            place=f"sealed value of event {line.seq}",
        ) from None
    return value
