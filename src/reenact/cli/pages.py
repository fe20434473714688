"""Pages for a browser, written to where somebody said."""

from __future__ import annotations

from pathlib import Path

from reenact.errors import SinkUnwritable
from reenact.store.files import replace_file

__all__ = ["write_page"]


def write_page(target: Path, document: bytes) -> None:
    """Write beside, and rename. Raises :class:`SinkUnwritable`, which names ``target``."""
    try:
        replace_file(target, document, sync=False, private=False)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise SinkUnwritable(
            f"cannot write the page {target}: {reason}",
            hint="choose a place that exists, has room and is yours to write",
        ) from None
