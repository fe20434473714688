"""Programs that start the one that is named after them."""

from __future__ import annotations

import pytest

from reenact.runs.command import inject_through_env, launched_command


@pytest.mark.parametrize(
    "words, command",
    [
        ("python3 program.py", "python3 program.py"),
        ("env python3 program.py", "python3 program.py"),
        ("env -i A=b PYTHONPATH=src python3 -u program.py", "python3 -u program.py"),
        ("/usr/bin/env -u A -C there --chdir=here -v - B= ls", "ls"),
        ("nice -n 5 env A=b sh -c ls", "sh -c ls"),
        ("timeout 60 sh script", "sh script"),
        ("uv run program.py", "uv run program.py"),
        ("env A=b uv run program.py", "uv run program.py"),
        ("env A=b", ""),
        ("env -S ls", ""),
        ("env -u", ""),
        ("nohup", ""),
    ],
)
def test_what_a_launcher_comes_to(words: str, command: str) -> None:
    assert " ".join(launched_command(words.split())) == command


def _inject(environ: dict[str, str]) -> dict[str, str]:
    return {"RUN": "here", "PYTHONPATH": f"ours:{environ['PYTHONPATH']}"}


@pytest.mark.parametrize(
    "words, command",
    [
        ("env ls", "env RUN=here PYTHONPATH=ours:found ls"),
        ("env PYTHONPATH=src ls", "env PYTHONPATH=src RUN=here PYTHONPATH=ours:src ls"),
        ("env -i A=b ls", "env -i A=b RUN=here PYTHONPATH=ours: ls"),
        ("env -u PYTHONPATH ls", "env -u PYTHONPATH RUN=here PYTHONPATH=ours: ls"),
        ("env --unset=PYTHONPATH ls", "env --unset=PYTHONPATH RUN=here PYTHONPATH=ours: ls"),
        ("nice -n 5 env ls", "nice -n 5 env RUN=here PYTHONPATH=ours:found ls"),
        ("nice -n 5 ls env", "nice -n 5 ls env"),
        ("ls env A=b", "ls env A=b"),
        ("env -S ls", "env -S ls"),
    ],
)
def test_what_env_takes_out_is_put_in_behind_it(words: str, command: str) -> None:
    assert " ".join(inject_through_env(words.split(), "found", _inject)) == command
