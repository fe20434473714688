"""What a command line starts, seen from its first words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reenact.errors import UsageError
from reenact.runs.command import check_command, kind_of

_LONG = "/bin/sh\n'''exec' \"/a place with blanks/bin/python3\" \"$0\" \"$@\"\n' '''\n"


def _script(place: Path, first: str) -> str:
    place.write_text(f"#!{first}\nimport sys\n", "utf-8")
    place.chmod(0o755)
    return str(place)


@pytest.mark.parametrize(
    "first, kind",
    [
        ("/usr/bin/python3", "python"),
        ("/usr/bin/env python3.12", "python"),
        ("/usr/bin/env -S python3 -u", "python"),
        ("/opt/pypy/bin/pypy3", "python"),
        (_LONG, "python"),
        ("/bin/sh", "other"),
        ("/usr/bin/env node", "other"),
        ("/usr/bin/perl", "other"),
    ],
    ids=["path", "env", "env -S", "pypy", "long", "sh", "node", "perl"],
)
def test_a_script_is_what_its_first_line_says(first: str, kind: str, tmp_path: Path) -> None:
    assert kind_of([_script(tmp_path / "tool", first)]) == kind


@pytest.mark.parametrize("name", ["python", "python3", "python3.13", "python3.13t", "pypy3.10"])
def test_an_interpreter_is_known_by_its_name(name: str) -> None:
    assert kind_of([f"/nowhere/bin/{name}", "program.py"]) == "python"


@pytest.mark.parametrize("name", ["uv", "env", "poetry", "timeout"])
def test_a_launcher_is_known_by_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _script(tmp_path / name, "/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kind_of([name, "run", "program.py"]) == "launcher"


def test_a_binary_is_something_else(tmp_path: Path) -> None:
    place = tmp_path / "tool"
    place.write_bytes(b"\x7fELF" + bytes(100))
    place.chmod(0o755)
    assert kind_of([str(place)]) == "other"


@pytest.mark.parametrize("word", ["no-such-tool-anywhere", "./nothing", "/nowhere/tool"])
def test_a_program_that_is_not_there(word: str) -> None:
    with pytest.raises(UsageError, match="not found") as caught:
        kind_of([word])
    assert word in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "words",
    [
        ["-I", "p.py"],
        ["-E", "p.py"],
        ["-S", "p.py"],
        ["-BIu", "p.py"],
        ["-u", "-W", "error", "-E", "p.py"],
        ["-Werror", "-S", "p.py"],
        ["-X", "dev", "-I", "-m", "tool"],
    ],
    ids=" ".join,
)
def test_a_python_that_would_not_let_us_in_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match="Reenact cannot be in this program"):
        check_command([sys.executable, *words], replays=False, isolated=False)


@pytest.mark.parametrize(
    "words",
    [
        ["p.py", "-I", "-E"],
        ["-m", "tool", "-S"],
        ["-mtool", "-S"],
        ["-c", "print()", "-I"],
        ["-cI=1"],
        ["-W", "Error", "p.py"],
        ["-WError", "p.py"],
        ["-X", "importtime=SIE", "p.py"],
        ["-XdevIES", "p.py"],
        ["-u", "-", "-I"],
        ["--check-hash-based-pycs", "always", "p.py"],
        ["-bb", "-OO", "-s", "-P", "-q", "p.py"],
        [],
    ],
    ids=lambda words: " ".join(words) or "nothing",
)
def test_letters_that_mean_something_else_are_not(words: list[str]) -> None:
    command = [sys.executable, *words]
    check_command(command, replays=True, isolated=False)
    assert kind_of(command) == "python"


def test_what_is_not_python_is_only_replayed_in_isolation(tmp_path: Path) -> None:
    command = [_script(tmp_path / "tool", "/bin/sh")]
    check_command(command, replays=False, isolated=False)
    check_command(command, replays=True, isolated=True)
    with pytest.raises(UsageError, match="nothing would keep it from the network") as caught:
        check_command(command, replays=True, isolated=False)
    assert "--isolate" in caught.value.hint
