"""How far a long piece of work has come: a bar at a terminal, now and then a line elsewhere."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TextIO

from reenact._system import monotonic
from reenact.cli.parsing import USUAL
from reenact.cli.render import clip

__all__ = ["Progress"]

_BAR = 24
_OFTEN, _SELDOM = 0.1, 10.0


class Progress:
    """Of ``whole`` things, ``done`` are done already."""

    def __init__(
        self, whole: int, done: int = 0, *, quiet: bool = False, out: TextIO | None = None
    ) -> None:
        self._whole, self._before, self._done = whole, done, done
        self._out = out or sys.stderr
        self._quiet = quiet
        self._bar = self._out.isatty()
        self._start = self._told = monotonic()

    def step(self, found: Counter[str]) -> None:
        """One more; ``found`` says how they ended so far."""
        self._done += 1
        now = monotonic()
        often = _OFTEN if self._bar else _SELDOM
        if not self._quiet and (now - self._told >= often or self._done == self._whole):
            self._told = now
            self._say(self._line(now, found))

    def end(self) -> None:
        """Leave the line of the bar."""
        if self._bar and not self._quiet and self._done > self._before:
            print(file=self._out)

    def _line(self, now: float, found: Counter[str]) -> str:
        seconds = max(now - self._start, 1e-9)
        rate = (self._done - self._before) / seconds
        left = (self._whole - self._done) / rate if rate else 0.0
        time = f"{_clock(left)} left" if self._done < self._whole else f"in {_clock(seconds)}"
        told = ", ".join(f"{number:,} {name}" for name, number in sorted(found.items()) if number)
        line = f"{self._done:,}/{self._whole:,}  {rate:,.1f}/s  {time}  {told}"
        if not self._bar:
            return f"reenact: {line}"
        width = self._width()
        if width < len(line) + _BAR + 3:
            return clip(line, width)
        full = round(_BAR * self._done / self._whole) if self._whole else _BAR
        return f"[{'#' * full}{'.' * (_BAR - full)}] {line}"

    def _width(self) -> int:
        """A line that is longer would break, and stay."""
        try:
            return max(1, (os.get_terminal_size(self._out.fileno()).columns or USUAL) - 1)
        except (OSError, ValueError):
            return USUAL

    def _say(self, line: str) -> None:
        if self._bar:
            print(f"\r\033[K{line}", end="", file=self._out, flush=True)
        else:
            print(line, file=self._out, flush=True)


def _clock(seconds: float) -> str:
    """``12 s``, ``3:05 min``, ``1:02:03 h``."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"
