"""What a command is to the command line. Loads nothing."""

from __future__ import annotations

__all__ = ["Command"]


class Command:
    """One command. ``run`` is ``module:function`` below ``reenact.cli``, loaded when it is used.

    A command with others ``under`` it does nothing by itself.
    """

    __slots__ = ("description", "example", "name", "run", "summary", "under")

    def __init__(
        self,
        name: str,
        run: str,
        summary: str,
        description: str,
        example: str,
        *,
        under: tuple[Command, ...] = (),
    ) -> None:
        self.name = name
        self.run = run
        self.summary = summary
        self.description = description
        self.example = example
        self.under = under
