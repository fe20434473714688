"""Where processes are started and waited for: the class ``subprocess.Popen``."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from reenact.boundaries.processes.starting import execute_child
from reenact.boundaries.processes.talking import communicate, selector
from reenact.boundaries.processes.waiting import poll, wait
from reenact.engine.patches.patch import Installable, Patch

__all__ = ["seams"]


def seams(module: ModuleType) -> list[Installable]:
    """The patches of the module ``subprocess``."""
    popen: Any = module.Popen
    expired = module.TimeoutExpired
    return [
        Patch(popen, "_execute_child", execute_child),
        Patch(popen, "poll", poll),
        Patch(popen, "_wait", lambda original: wait(original, expired)),
        Patch(popen, "_communicate", lambda original: communicate(original, expired)),
        Patch(module, "_PopenSelector", selector),
    ]
