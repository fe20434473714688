"""Fenced blocks of a Markdown file, and what a shown console session expects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,}|~{3,}) *(?P<info>.*)$")
_WILD = re.compile(r"\\\.\\\.\\\.|…")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the words after it, its text, and the line its text starts on."""

    language: str
    options: tuple[str, ...]
    text: str
    line: int

    @property
    def exit_code(self) -> int:
        """What the last command of a console block must exit with."""
        given = [o.removeprefix("exit=") for o in self.options if o.startswith("exit=")]
        return int(given[0]) if given else 0


@dataclass(frozen=True)
class Command:
    """A line typed at a prompt, and the output shown below it (empty: not shown, anything goes)."""

    typed: str
    shown: tuple[str, ...]
    line: int


def blocks(path: Path) -> list[Block]:
    """All fenced blocks of a file, in order. An unclosed one is an error."""
    found: list[Block] = []
    lines = iter(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    for number, line in lines:
        opening = _FENCE.match(line)
        if opening is None:
            continue
        body: list[str] = []
        for _, inner in lines:
            if inner.strip() == opening["mark"]:
                break
            body.append(inner.removeprefix(opening["indent"]))
        else:
            raise ValueError(f"{path}:{number}: this block is never closed")
        words = opening["info"].split() or [""]
        found.append(Block(words[0], tuple(words[1:]), "\n".join(body) + "\n", number + 1))
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a console block. `> ` continues a command, every other line is output."""
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append(Command(line[2:], (), number))
        elif not found:
            raise ValueError(f"line {number}: a console block begins with a line `$ command`")
        elif line.startswith("> ") and not found[-1].shown:
            last = found.pop()
            found.append(Command(f"{last.typed}\n{line[2:]}", (), last.line))
        else:
            last = found.pop()
            found.append(Command(last.typed, (*last.shown, line), last.line))
    return found


def matches(shown: tuple[str, ...], printed: str) -> bool:
    """Whether `printed` is what was shown. `...` stands for the rest of a line, alone for any lines."""
    pattern = "".join(_line_pattern(line.rstrip()) for line in _without_empty_end(shown))
    actual = "".join(f"{line.rstrip()}\n" for line in _without_empty_end(printed.splitlines()))
    return re.fullmatch(pattern, actual) is not None


def _line_pattern(line: str) -> str:
    if line.strip() in ("...", "…"):
        return r"(?:.*\n)*"
    return _WILD.sub(".*", re.escape(line)) + r"\n"


def _without_empty_end(lines: tuple[str, ...] | list[str]) -> list[str]:
    kept = list(lines)
    while kept and not kept[-1].strip():
        kept.pop()
    return kept
