"""What a program says about one of its tools."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

from reenact.errors import UsageError
from reenact.format.paths import parse

__all__ = ["Again", "Said"]

Again = Literal["stub", "re-execute", "pass"]
"""What a replay does with a tool, unless the policy says something else."""

_SHOWN: Final = 128


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What :func:`reenact.tool` was told about a tool. Empty texts were not said."""

    name: str = ""
    description: str = ""
    replay: Again = "stub"
    volatile: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def check(self, name: str) -> None:
        """Raise :class:`UsageError` for what nobody can do; ``name`` is the tool's."""
        if self.replay not in get_args(Again):
            raise UsageError(
                f"the tool {name[:_SHOWN]} cannot have replay={self.replay!r}",
                hint=f"one of {', '.join(get_args(Again))}",
            )

    def places(self) -> tuple[str, ...]:
        """Where in the completing event the volatile places are: in the result, and in the details
        of a failure. Raises :class:`UsageError`."""
        return tuple(place for one in self.volatile for place in _places(one))


def _places(text: str) -> tuple[str, str]:
    path = text if text.startswith("$") else f"$.{text}"
    parse(path)
    return f"$.result{path[1:]}", f"$.error.state.details{path[1:]}"
