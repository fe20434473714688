"""The reader of the documentation's blocks, on small pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.meta.markdown import Block, Command, blocks, commands, matches


def test_blocks_come_with_language_options_and_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n```console exit=3\n$ x\n```\n- b\n  ```python\n  y\n  ```\n", "utf-8")
    first, second = blocks(page)
    assert first == Block("console", ("exit=3",), "$ x\n", 3)
    assert first.exit_code == 3
    assert second == Block("python", (), "y\n", 7)


def test_an_unclosed_block_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx\n", "utf-8")
    with pytest.raises(ValueError, match="never closed"):
        blocks(page)


def test_commands_continue_and_show_output() -> None:
    block = Block("console", (), "$ a \\\n> b\nout\n$ c\n", 10)
    assert commands(block) == [Command("a \\\nb", ("out",), 10), Command("c", (), 13)]


def test_output_before_any_command_is_an_error() -> None:
    with pytest.raises(ValueError, match="begins with"):
        commands(Block("console", (), "out\n", 1))


@pytest.mark.parametrize(
    "shown,printed,expected",
    [
        (("a", "b"), "a\nb\n", True),
        (("a", ""), "a  \n\n", True),
        (("a",), "a\nb\n", False),
        (("a", "..."), "a\nb\nc\n", True),
        (("a", "...", "c"), "a\nc\n", True),
        (("took ...",), "took 3.2 s\n", True),
        (("id … ok",), "id 7f ok\n", True),
        (("a.c",), "abc\n", False),
        (("b",), "", False),
    ],
)
def test_shown_output_matches(shown: tuple[str, ...], printed: str, expected: bool) -> None:
    assert matches(shown, printed) is expected
