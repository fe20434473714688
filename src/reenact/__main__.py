"""``python -m reenact`` is the command ``reenact``."""

from __future__ import annotations

from reenact.cli.main import entry

if __name__ == "__main__":
    raise SystemExit(entry())
