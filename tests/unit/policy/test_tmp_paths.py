"""Folders that pytest makes for its tests are the same in every run."""

from __future__ import annotations

import pytest

from reenact.policy.volatile import Volatile, settles

FOLDER = "/tmp/pytest-of-ada/pytest-7/test_it0"


@pytest.mark.parametrize(
    "text,expected",
    [
        (FOLDER, "<tmp_path>"),
        (f"cat {FOLDER}/a.txt", "cat <tmp_path>/a.txt"),
        ("/private/var/T/pytest-of-ada/pytest-12/popen-gw1/test_it10/a", "<tmp_path>/a"),
        ("/tmp/pytest-of-ada/pytest-7", "<tmp_path>"),
        ("/tmp/pytest-of-ada/current", "/tmp/pytest-of-ada/current"),
        ("/tmp/other/pytest-7/x", "/tmp/other/pytest-7/x"),
    ],
    ids=range(6),
)
def test_what_is_replaced(text: str, expected: str) -> None:
    assert Volatile(["tmp_paths"]).strip({"argv": [text]}) == {"argv": [expected]}


def test_what_is_beside_them_counts() -> None:
    other = FOLDER.replace("pytest-7", "pytest-8")
    assert settles("tmp_paths", ("cwd",), f"{FOLDER}/a", f"{other}/a")
    assert not settles("tmp_paths", ("cwd",), f"{FOLDER}/a", f"{other}/b")
