"""What is patched while a test has a session, besides what every session patches."""

from __future__ import annotations

from reenact.engine.patches.patch import Installable
from reenact.pytest_plugin.frozen import FreezingPatch
from reenact.pytest_plugin.importing import import_patch
from reenact.pytest_plugin.runner_task import runner_patch

__all__ = ["make_patches"]


def make_patches() -> list[Installable]:
    """The patches, none of them installed. A session is open."""
    return [import_patch(), runner_patch(), FreezingPatch()]
