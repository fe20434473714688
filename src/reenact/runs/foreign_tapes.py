"""Net tapes of Boruna, converted for the duration of one replay."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

__all__ = ["ForeignTape", "is_boruna"]

_START = 4096
"""Bytes. Boruna writes the version of the format first."""


def is_boruna(path: Path) -> bool:
    """Return True for a net tape of Boruna, in any version."""
    try:
        with path.open("rb") as file:
            start = file.read(_START)
    except OSError:
        return False  # opening it as a recording reports the reason
    return b'"format_version"' in start and b'"captureId"' not in start


class ForeignTape:
    """A net tape of another tool as a tape of Reenact, in a private folder until :meth:`close`.

    Nothing is redacted, because the program is to get what was recorded and the copy is deleted.
    """

    def __init__(self, source: Path, root: Path, policy: str | None) -> None:
        """Convert ``source``. Raises :class:`RecordingDamaged` and :class:`RecordingTooNew`."""
        # Loaded here because every replay imports this module.
        from reenact.interop.formats import format_named, read_content
        from reenact.interop.importer import Origin, policy_of, take
        from reenact.interop.model import check_size

        check_size(source.stat().st_size)
        content = source.read_bytes()
        one = format_named("boruna")
        found = read_content(one, content, str(source))
        self._folder = Path(tempfile.mkdtemp(prefix="reenact-tape-"))
        self.path = self._folder / f"{source.stem}.jsonl"
        try:
            origin = Origin(one.name, content, int(source.stat().st_mtime * 1000))
            take(found, self.path, origin, pinned=policy_of(root, policy), redaction="none")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Delete the copy."""
        shutil.rmtree(self._folder, ignore_errors=True)
