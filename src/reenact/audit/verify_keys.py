"""The keys of an export: each announced by a record that the one before it signed."""

from __future__ import annotations

from reenact.audit.bundle import KeySpan
from reenact.audit.findings import Findings
from reenact.audit.keys import Key
from reenact.audit.rotation import check_rotation
from reenact.errors import AuditInvalid

__all__ = ["KeyChain"]


class KeyChain:
    """Follows the changes of keys that the records announce, along those that are listed."""

    def __init__(self, spans: tuple[KeySpan, ...], findings: Findings) -> None:
        self._listed = iter(spans[1:])
        self._key: Key = spans[0].key
        self._findings = findings

    def rotate(self, seq: int, note: str) -> None:
        """The record ``seq`` announces a key."""
        try:
            self._key = check_rotation(note, seq, self._key)
        except AuditInvalid as error:
            self._findings.add("key.rotation", f"record {seq}: {error.message}", seq)
            return
        if next(self._listed, None) != KeySpan(seq + 1, self._key):
            self._findings.add(
                "key.rotation", f"record {seq} announces a key that is not listed for it", seq
            )

    def end(self) -> None:
        """After the last record."""
        for span in self._listed:
            self._findings.add(
                "key.rotation", f"no record announces the key {span.key.to_text()}", span.start
            )
