"""Signed notes (c2sp.org/signed-note, v1.0.0) and the notes that rotate the key of a log.

Signatures of unknown keys are ignored, so that witnesses can add theirs and a key can be replaced. An
invalid signature of a known key invalidates the complete note.

A rotation is a record in the log that contains a signed note. In it both keys state which key is next
and from which record. Heads that include the record are signed by the new key, earlier heads by the old
one. Each log size therefore has one key, and a stolen retired key cannot sign later records.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from reenact.audit.keys import Key, Signer, check_name, strict_base64
from reenact.errors import AuditInvalid

__all__ = [
    "MAX_NOTE",
    "Note",
    "NoteSignature",
    "check_rotation",
    "parse_note",
    "rotation_note",
    "sign_note",
]

MAX_NOTE: Final = 1_000_000
"""Bytes. Room for a hundred signatures of any kind."""
MAX_SIGNATURES: Final = 100
_DASH: Final = "\u2014 "
_ID_SIZE: Final = 4
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")


class NoteSignature(msgspec.Struct, frozen=True):
    """One line under a note. ``key_id`` is four bytes, ``data`` what the algorithm made."""

    name: str
    key_id: bytes
    data: bytes

    def to_text(self) -> str:
        """The line, with its newline."""
        return f"{_DASH}{self.name} {b64encode(self.key_id + self.data).decode()}\n"


class Note(msgspec.Struct, frozen=True):
    """``text`` ends with a newline. Nothing in it is to be believed before :meth:`signed_by`."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def to_text(self) -> str:
        """The whole note."""
        return f"{self.text}\n{''.join(line.to_text() for line in self.signatures)}"

    def signed_by(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        """Return the ``keys`` that signed it, each once, in the order of the signatures.

        Raises :class:`AuditInvalid` if a signature of a known key is invalid, and if none of the
        keys signed.
        """
        known = {(key.name, key.id): key for key in keys}
        found: dict[Key, None] = {}
        for line in self.signatures:
            key = known.get((line.name, line.key_id))
            if key is None:
                continue
            if not key.verifies(line.data, self.text.encode()):
                raise AuditInvalid(
                    f"the signature of {key.name} ({key.id.hex()}) is not one over this text",
                    reason="note.signature",
                    hint="the text or the signature was changed; do not trust it",
                )
            found[key] = None
        if not found:
            raise AuditInvalid(
                f"not signed by a key that is trusted here, but by {self._strangers()}",
                reason="note.unsigned",
                hint="give the verifier key of the log, which its operator publishes",
            )
        return tuple(found)

    def _strangers(self) -> str:
        names = dict.fromkeys(f"{line.name} ({line.key_id.hex()})" for line in self.signatures)
        return ", ".join(list(names)[:4]) + (" …" if len(names) > 4 else "")


def sign_note(text: str, signers: Sequence[Signer]) -> Note:
    """A note over ``text`` with one signature of each signer, in their order."""
    _check_characters(text.encode())
    if not text.endswith("\n") or not signers:
        raise _malformed("a text ends with a newline and has at least one signature")
    return Note(
        text,
        tuple(
            NoteSignature(signer.key.name, signer.key.id, signer.sign(text.encode()))
            for signer in signers
        ),
    )


def parse_note(data: bytes) -> Note:
    """Read a note strictly; nothing is verified. Raises :class:`AuditInvalid`."""
    if len(data) > MAX_NOTE:
        raise _malformed(f"it has {len(data)} bytes, more than {MAX_NOTE}")
    whole = _check_characters(data)
    cut = whole.rfind("\n\n")
    if cut < 0:
        raise _malformed("expected an empty line between the text and the signatures")
    text, below = whole[: cut + 1], whole[cut + 2 :]
    if not below.endswith("\n"):
        raise _malformed("expected signatures that end with a line break")
    lines = below[:-1].split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise _malformed(f"it has {len(lines)} signatures, more than {MAX_SIGNATURES}")
    return Note(text, tuple(map(_signature, lines)))


def _check_characters(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _malformed(f"it is not UTF-8 at byte {error.start}") from None
    if _CONTROL.search(text):
        raise _malformed("it has control characters")
    return text


def _signature(line: str) -> NoteSignature:
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not space:
        raise _malformed("a signature line is a dash, a name and base64")
    check_name(name)
    data = strict_base64(encoded)
    if data is None or len(data) <= _ID_SIZE:
        raise _malformed("a signature is not the base64 of a key id and more")
    return NoteSignature(name, data[:_ID_SIZE], data[_ID_SIZE:])


def _malformed(why: str) -> AuditInvalid:
    return AuditInvalid(f"not a signed note: {why}", reason="note.malformed")


_TITLE: Final = "reenact.audit/key-rotation/v1"


def rotation_note(seq: int, old: Signer, new: Signer) -> str:
    """Return the note for the record ``seq`` that hands the log over from ``old`` to ``new``."""
    if old.key.name != new.key.name or old.key == new.key:
        raise AuditInvalid(
            "a rotation requires a different key with the same name", reason="rotation.malformed"
        )
    text = "\n".join([_TITLE, str(seq), old.key.to_text(), new.key.to_text(), ""])
    return sign_note(text, [old, new]).to_text()


def check_rotation(note: str, seq: int, old: Key) -> Key:
    """Return the key that the record ``seq`` hands the log over to.

    Raises :class:`AuditInvalid` unless both keys signed it, for this log and this record.
    """
    found = parse_note(note.encode())
    lines = found.text[:-1].split("\n")
    if len(lines) != 4 or lines[0] != _TITLE:
        raise _refused("the note does not announce a key")
    _, number, before, after = lines
    if before != old.to_text():
        raise _refused(f"the announcing key is not the key in force, {old.to_text()}")
    new = Key.from_text(after)
    if new.name != old.name:
        raise _refused("the new key belongs to a different log")
    if number != str(seq):
        raise _refused("the note belongs to a different record")
    if len(found.signed_by([old, new])) != 2:
        raise _refused("it requires the signatures of the old key and of the new key")
    return new


def _refused(why: str) -> AuditInvalid:
    return AuditInvalid(
        f"invalid key rotation record: {why}",
        reason="rotation.malformed",
        hint="trust neither key until the operator has explained the rotation",
    )
