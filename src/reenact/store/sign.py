"""Ed25519 signatures over the manifest, because a hash alone does not detect a deliberate edit.

The manifest states the hash of the events, and the events state the digests of the blobs, so one
signature covers everything that a replay serves. It does not cover ``sealed`` and ``torn/``.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.errors import ExtraMissing, SignatureInvalid, SinkError, UsageError
from reenact.format.canonical import canonical
from reenact.format.decoders import build_decoders
from reenact.format.manifest import Manifest
from reenact.store.files import SIGNATURE, read_regular, replace_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

__all__ = ["check_signature", "new_key", "sign", "signature_path"]

_DOMAIN = b"reenact manifest signature 1\n"


class _Signature(msgspec.Struct, frozen=True, rename="camel"):
    algorithm: str
    public_key: str
    signature: str


build_decoders(_Signature)


def signature_path(recording: Path) -> Path:
    """Return the path of a recording's signature."""
    if recording.is_dir():
        return recording / SIGNATURE
    return recording.with_name(f"{recording.name}.sig")


def new_key(path: Path) -> Path:
    """Create a signing key at ``path``, readable by its owner only, and its public key next to it."""
    keys, serial = _crypto()
    key = keys.Ed25519PrivateKey.generate()
    public = path.with_name(f"{path.name}.pub")
    if public.exists():
        raise SinkError(f"{public} exists already", hint="choose another name")
    private_pem = key.private_bytes(
        serial.Encoding.PEM, serial.PrivateFormat.PKCS8, serial.NoEncryption()
    )
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SinkError(f"cannot create {path}: {error.strerror}") from None
    with os.fdopen(fd, "wb") as file:
        file.write(private_pem)
    public.write_bytes(
        key.public_key().public_bytes(serial.Encoding.PEM, serial.PublicFormat.SubjectPublicKeyInfo)
    )
    return public


def sign(recording: Path, manifest: Manifest, key_file: Path) -> Path:
    """Sign a verified recording. Returns where the signature was written."""
    _, serial = _crypto()
    key = _private(key_file)
    public = key.public_key().public_bytes(serial.Encoding.Raw, serial.PublicFormat.Raw)
    signature = _Signature(
        "ed25519", b64encode(public).decode(), b64encode(key.sign(_message(manifest))).decode()
    )
    target = signature_path(recording)
    replace_file(target, msgspec.json.format(msgspec.json.encode(signature)) + b"\n")
    return target


def check_signature(recording: Path, manifest: Manifest, key_file: Path) -> None:
    """Raises :class:`SignatureInvalid` unless the holder of the key signed this manifest."""
    _, serial = _crypto()
    target = signature_path(recording)
    public = _public(key_file)
    try:
        found = msgspec.json.decode(read_regular(target), type=_Signature)
        signature = b64decode(found.signature, validate=True)
    except FileNotFoundError:
        raise SignatureInvalid(
            f"{recording} is not signed",
            place=f"file {target.name}",
            hint=f"reenact sign {recording} --key KEY",
        ) from None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise SignatureInvalid(
            f"{target.name} cannot be read: {error}", place=f"file {target.name}"
        ) from None
    raw = public.public_bytes(serial.Encoding.Raw, serial.PublicFormat.Raw)
    if found.algorithm != "ed25519" or found.public_key != b64encode(raw).decode():
        raise SignatureInvalid(
            f"{recording} was signed with another key",
            place=f"file {target.name}",
            hint="ask its signer for the public key and verify with it",
        )
    _check(public, signature, manifest, recording, target)


def _check(
    public: Ed25519PublicKey, signature: bytes, manifest: Manifest, recording: Path, target: Path
) -> None:
    from cryptography.exceptions import InvalidSignature

    try:
        public.verify(signature, _message(manifest))
    except InvalidSignature:
        raise SignatureInvalid(
            f"{recording} was changed after it was signed",
            place=f"file {target.name}",
            hint="do not trust it; get the original from its signer",
        ) from None


def _message(manifest: Manifest) -> bytes:
    return _DOMAIN + canonical(manifest.to_json())


def _crypto() -> tuple[Any, Any]:
    """The modules ``ed25519`` and ``serialization``, or the hint how to get them."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ExtraMissing("signing", "seal") from None
    return ed25519, serialization


def _private(path: Path) -> Ed25519PrivateKey:
    keys, serial = _crypto()
    try:
        key = serial.load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path} is not a private key in PEM form: {error}") from None
    if not isinstance(key, keys.Ed25519PrivateKey):
        raise UsageError(f"{path} is not an Ed25519 key", hint="reenact sign --new-key FILE")
    found: Ed25519PrivateKey = key
    return found


def _public(path: Path) -> Ed25519PublicKey:
    keys, serial = _crypto()
    try:
        key = serial.load_pem_public_key(_read(path))
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"{path} is not a public key in PEM form: {error}", hint="give the .pub file"
        ) from None
    if not isinstance(key, keys.Ed25519PublicKey):
        raise UsageError(f"{path} is not an Ed25519 key")
    found: Ed25519PublicKey = key
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the key {path}: {error.strerror}") from None
