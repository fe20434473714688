"""Signatures of commands.

The signed bytes are ``reenact command 1``, a newline, and the canonical JSON (RFC 8785) of the
command without ``signature``. A receiver verifies the received document including unknown fields,
because a newer server signs those too.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

import msgspec

from reenact.audit.keys import SIGNATURE_SIZE, Key, Signer, strict_base64
from reenact.errors import ValueRefused
from reenact.exchange.model import Command
from reenact.format.canonical import jcs

__all__ = ["sign", "signed_bytes", "verify", "verify_document"]

_PREFIX: Final = b"reenact command 1\n"
_SIGNATURE: Final = "signature"


def sign(command: Command, signer: Signer) -> Command:
    """Return ``command`` with the signature of ``signer``. An existing signature is replaced."""
    document = msgspec.to_builtins(command)
    signature = b64encode(signer.sign(signed_bytes(document))).decode()
    return msgspec.structs.replace(command, signature=signature)


def verify(command: Command, key: Key) -> bool:
    """Return whether the holder of ``key`` signed this command."""
    return verify_document(msgspec.to_builtins(command), key)


def verify_document(document: dict[str, Any], key: Key) -> bool:
    """Return whether the holder of ``key`` signed ``document``, a decoded command with all its
    fields."""
    spelled = document.get(_SIGNATURE)
    signature = strict_base64(spelled) if isinstance(spelled, str) else None
    if signature is None or len(signature) != SIGNATURE_SIZE:
        return False
    try:
        message = signed_bytes(document)
    except ValueRefused:  # what has no canonical form has not been signed
        return False
    return key.verifies(signature, message)


def signed_bytes(document: dict[str, Any]) -> bytes:
    """Return the signed bytes of ``document``. Raises :class:`ValueRefused`."""
    return _PREFIX + jcs({name: value for name, value in document.items() if name != _SIGNATURE})
