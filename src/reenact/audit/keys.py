"""Named Ed25519 keys in the text forms of C2SP signed-note, with strict base64 and number parsing.

A key is identified by its name and its id, the first four bytes of a hash over name and key. The id
only helps to find the right key. Trust requires the complete key.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from reenact.errors import AuditInvalid, ExtraMissing, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

__all__ = [
    "MAX_SIZE",
    "SIGNATURE_SIZE",
    "Key",
    "Signer",
    "check_name",
    "strict_base64",
    "strict_number",
]

MAX_SIZE: Final = 2**53 - 1
"""The largest size and time: so that each is a number to every reader of JSON."""


def strict_base64(text: str) -> bytes | None:
    """The bytes, or None unless ``text`` is exactly what standard base64 makes of them.

    The decoder alone lets bits pass in the last character that stand for nothing, and so would
    several texts stand for one hash.
    """
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return None
    return data if b64encode(data).decode() == text else None


def strict_number(text: str) -> int | None:
    """A decimal without sign and leading zeroes, up to :data:`MAX_SIZE`; None for anything else."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MAX_SIZE)):
        return None
    number = int(text)
    return number if str(number) == text and number <= MAX_SIZE else None


SIGNATURE_SIZE: Final = 64
_ED25519: Final = b"\x01"
_KEY_SIZE: Final = 32
_PRIVATE: Final = "PRIVATE+KEY+"
_NOT_IN_A_NAME: Final = re.compile(r"[\s+\x00-\x1f\ud800-\udfff]")


class Key(msgspec.Struct, frozen=True):
    """The public half: it verifies. ``public`` is 32 bytes."""

    name: str
    public: bytes

    @property
    def id(self) -> bytes:
        """Four bytes that tell keys of one name apart."""
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:4]

    def to_text(self) -> str:
        """The verifier key: ``name+id+base64``."""
        return f"{self.name}+{self.id.hex()}+{b64encode(_ED25519 + self.public).decode()}"

    @classmethod
    def from_text(cls, text: str) -> Key:
        """Read a verifier key. Raises :class:`AuditInvalid`."""
        name, key_id, public = _parts(text, "a verifier key")
        key = cls(name, public)
        if key_id != key.id.hex():
            raise _bad_key(
                "the id does not match the name and the key, so one of the three is wrong"
            )
        return key

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Did the holder of the other half sign exactly this?"""
        public = _loaded(self.public)  # first, because it reports a missing package
        from cryptography.exceptions import InvalidSignature

        try:
            public.verify(signature, message)
        except InvalidSignature:
            return False
        return True


class Signer:
    """The private half: it signs. ``seed`` is 32 random bytes, and is the whole secret."""

    __slots__ = ("_private", "_seed", "key")

    def __init__(self, name: str, seed: bytes) -> None:
        check_name(name)
        if len(seed) != _KEY_SIZE:
            raise UsageError(f"a signing key has {_KEY_SIZE} bytes, this one {len(seed)}")
        self._seed = seed
        self._private = _ed25519().Ed25519PrivateKey.from_private_bytes(seed)
        self.key = Key(name, self._private.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        """Without the seed: signers end up in tracebacks."""
        return f"Signer({self.key.to_text()})"

    def named(self, name: str) -> Signer:
        """Return the same secret under a different name.

        One server key signs the logs of all tenants, and each signature is valid for one log only.
        """
        return Signer(name, self._seed)

    def sign(self, message: bytes) -> bytes:
        """64 bytes, the same for the same message."""
        signature: bytes = self._private.sign(message)
        return signature

    def to_text(self) -> str:
        """The secret in the text form that Go's note package reads and writes. Never print it."""
        secret = b64encode(_ED25519 + self._seed).decode()
        return f"{_PRIVATE}{self.key.name}+{self.key.id.hex()}+{secret}"

    @classmethod
    def from_text(cls, text: str) -> Signer:
        """Parse the result of :meth:`to_text`. Raises :class:`AuditInvalid` without revealing the
        secret.
        """
        if not text.startswith(_PRIVATE):
            raise _bad_key("a signing key begins with PRIVATE+KEY+")
        name, key_id, seed = _parts(text.removeprefix(_PRIVATE), "a signing key")
        signer = cls(name, seed)
        if key_id != signer.key.id.hex():
            raise _bad_key(
                "the id does not match the name and the key, so one of the three is wrong"
            )
        return signer


def check_name(name: str) -> None:
    """Raises :class:`AuditInvalid` unless ``name`` can name a key in a signed note."""
    if not name or _NOT_IN_A_NAME.search(name):
        raise AuditInvalid(
            "a key's name is not empty and has no spaces and no plus sign",
            reason="key.name",
            hint="use the form example.com/audit/tenant",
        )


def _parts(text: str, what: str) -> tuple[str, str, bytes]:
    parts = text.split("+", 2)  # base64 has plus signs of its own
    if len(parts) != 3:
        raise _bad_key(f"{what} has three parts with a plus sign between them")
    name, key_id, encoded = parts
    check_name(name)
    data = strict_base64(encoded)
    if data is None or data[:1] != _ED25519 or len(data) != 1 + _KEY_SIZE:
        raise _bad_key("its last part is not the base64 of an Ed25519 key (type 1, 32 bytes)")
    return name, key_id, data[1:]


def _bad_key(why: str) -> AuditInvalid:
    return AuditInvalid(
        f"not a key: {why}", reason="key.malformed", hint="copy the complete line: name+id+base64"
    )


@lru_cache(maxsize=64)
def _loaded(public: bytes) -> Ed25519PublicKey:
    found: Ed25519PublicKey = _ed25519().Ed25519PublicKey.from_public_bytes(public)
    return found


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ExtraMissing("the audit log", "seal") from None
    return ed25519
