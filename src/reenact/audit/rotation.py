"""Changing the key of a log, so that who trusts the old key can trust the new one.

The change is a record in the log. The record holds a signed note of its own: the old key says which
key comes next and from which record on, and the new key says from which one it takes over. Heads that include the
record are signed by the new key, those that do not by the old one; so each size has one key, and a
retired key that gets stolen cannot sign anything that was not there in its time.
"""

from __future__ import annotations

from typing import Final

from reenact.audit.keys import Key, Signer
from reenact.audit.note import parse_note, sign_note
from reenact.errors import AuditInvalid

__all__ = ["check_rotation", "rotation_note"]

_TITLE: Final = "reenact.audit/key-rotation/v1"


def rotation_note(seq: int, old: Signer, new: Signer) -> str:
    """What the record ``seq`` must hold in order to hand the log from ``old`` to ``new``."""
    if old.key.name != new.key.name or old.key == new.key:
        raise AuditInvalid(
            "the new key is another one, of the same name", reason="rotation.malformed"
        )
    text = "\n".join([_TITLE, str(seq), old.key.to_text(), new.key.to_text(), ""])
    return sign_note(text, [old, new]).to_text()


def check_rotation(note: str, seq: int, old: Key) -> Key:
    """The key that the record ``seq`` hands the log to.

    Raises :class:`AuditInvalid` unless both keys signed it, for this log and this record.
    """
    found = parse_note(note.encode())
    lines = found.text[:-1].split("\n")
    if len(lines) != 4 or lines[0] != _TITLE:
        raise _refused("it is no announcement of a key")
    _, number, before, after = lines
    if before != old.to_text():
        raise _refused(f"it is not from the key in force, {old.to_text()}")
    new = Key.from_text(after)
    if new.name != old.name:
        raise _refused("it is to a key of another log")
    if number != str(seq):
        raise _refused("it is for another record")
    if len(found.signed_by([old, new])) != 2:
        raise _refused("the old key and the new one must both have signed it")
    return new


def _refused(why: str) -> AuditInvalid:
    return AuditInvalid(
        f"a record says that the key changes, but {why}",
        reason="rotation.malformed",
        hint="trust neither key before the operator has explained it",
    )
