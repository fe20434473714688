"""Where the processes of a run find Reenact, if their own Python has none."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from reenact._version import __version__

__all__ = ["lend"]

_LENT = ("reenact", "msgspec", "orjson", "cryptography", "cffi", "_cffi_backend", "hyperscan")
"""What a process whose own environment has no Reenact borrows from ours."""


def lend(folder: Path) -> None:
    """Write into the folder of a run which Reenact this is, and where it lies."""
    (folder / "version").write_text(__version__, encoding="utf-8")
    homes = "".join(f"{name}={home}\n" for name, home in _homes().items())
    tag = sys.implementation.cache_tag
    (folder / "homes").write_text(f"{tag}\n{homes}", encoding="utf-8")


def _homes() -> dict[str, str]:
    """The folder on whose path each lent module lies."""
    found: dict[str, str] = {}
    for name in _LENT:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            place = Path(spec.origin)
            found[name] = str(
                place.parent.parent if spec.submodule_search_locations else place.parent
            )
    return found
