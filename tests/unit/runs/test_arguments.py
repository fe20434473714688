"""What a Python program is given, by its command line; and whether it was recorded with that."""

from __future__ import annotations

from pathlib import Path

import pytest

import reenact
from reenact.engine.session.settings import resolve_settings
from reenact.runs.command import arguments_of
from reenact.runs.replay_checks import ArgumentChange, compare_arguments

LINES = {
    "python x.py a b": ["a", "b"],
    "python3.12 -u -X dev x.py a": ["a"],
    "/opt/bin/python -Xdev -c code a": ["a"],
    "python -ccode a": ["a"],
    "python -Wd -m module -v": ["-v"],
    "python -mmodule a": ["a"],
    "python -uc code a": ["a"],
    "python - a": ["a"],
    "python --check-hash-based-pycs always x.py a": ["a"],
    "python x.py": [],
    "python": None,
    "uv run x.py a": None,
    "no-such-program a": None,
    "": None,
}


@pytest.mark.parametrize("line", LINES)
def test_arguments(line: str) -> None:
    assert arguments_of(line.split()) == LINES[line]


SAID = {
    "another": (["a", "b"], ["a", "c"], 'argument 2 is "c", and was "b" in the recording'),
    "one more": (["a"], ["a", "b"], 'argument 2 is "b", and was not there in the recording'),
    "one less": (["a"], [], 'argument 1 is missing, and was "a" in the recording'),
    "several": (
        ["a", "b"],
        ["c"],
        'argument 1 is "c", and was "a" in the recording (and 1 more)',
    ),
    "odd": (["a"], ["\x1b[31m\n"], 'argument 1 is "\\u001b[31m\\n", and was "a" in the recording'),
    "hidden": (["***"], ["***"], "the arguments differ from the recording"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_said_of_other_arguments(case: str) -> None:
    recorded, given, line = SAID[case]
    assert ArgumentChange(recorded, given).line() == line


COMPARED: dict[str, tuple[list[str], list[str], bool]] = {
    "the same": (["python", "p.py", "a"], ["python", "p.py", "a"], False),
    "of another Python": (["python", "p.py", "a"], ["/opt/python3.13", "-u", "q.py", "a"], False),
    "another": (["python", "p.py", "a"], ["python", "p.py", "b"], True),
    "by way of a launcher": (["uv", "run", "p.py", "a"], ["python", "p.py", "b"], False),
    "what says nothing": ([], ["python", "p.py", "b"], False),
}


@pytest.mark.parametrize("case", COMPARED)
def test_which_arguments_are_other_ones(case: str, tmp_path: Path) -> None:
    recorded, given, differ = COMPARED[case]
    with reenact.start_recording(tmp_path / "c") as recording:
        recording.add(reenact.RunStart(argv=recorded))
    settings = resolve_settings(capture=tmp_path / "c", mode="replay", root=tmp_path)
    assert (compare_arguments(settings, given) is not None) == differ


def test_a_recording_of_no_run_has_no_arguments(tmp_path: Path) -> None:
    with reenact.start_recording(tmp_path / "c") as recording:
        recording.add(reenact.ToolCall(name="weather", args={}, call_id="1"))
    settings = resolve_settings(capture=tmp_path / "c", mode="replay", root=tmp_path)
    assert compare_arguments(settings, ["python", "p.py", "a"]) is None
