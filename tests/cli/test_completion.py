"""``reenact completion``."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from reenact.cli._commands import TABLE
from reenact.cli.manage.completion import SHELLS
from tests.cli.conftest import Run


@pytest.mark.parametrize("shell", SHELLS)
def test_script_knows_every_command(shell: str, run: Run) -> None:
    ran = run("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert [name for name, _, _ in TABLE if name not in ran.out] == []
    assert "follow" in ran.out


def _bash() -> str:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    return bash


@pytest.mark.parametrize(
    "typed, expected",
    [
        (["ver"], {"verify"}),
        (["show", "--fo"], {"--follow"}),
        (["redact", "--profile", ""], {"default", "strict"}),
        (["completion", "z"], {"zsh"}),
        (["exchange", "replays", "--verdict", "f"], {"fixed"}),
    ],
)
def test_bash_completes(typed: list[str], expected: set[str], run: Run) -> None:
    script = run("completion", "bash").out
    words = " ".join(f"'{word}'" for word in ["reenact", *typed])
    ask = (
        f"COMP_WORDS=({words}); COMP_CWORD={len(typed)}; COMP_TYPE=9;"
        '$(complete -p reenact | sed "s/.* -F \\([^ ]*\\) .*/\\1/") reenact;'
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [_bash(), "--norc", "-c", f"{script}\n{ask}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert {word.strip() for word in done.stdout.split()} == expected, done.stderr
