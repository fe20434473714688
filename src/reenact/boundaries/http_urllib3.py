from types import ModuleType

from reenact.engine.patches import Patch


def seams(library: ModuleType) -> list[Patch]:
    return []
