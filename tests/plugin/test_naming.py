"""The names of cassettes."""

from __future__ import annotations

import pytest

from reenact.policy.paths import unsafe_reason
from reenact.pytest_plugin.cassette import default_name


@pytest.mark.parametrize(
    "test,name",
    [
        ("tests/api/test_a.py::test_b", "tests/api/test_a/test_b"),
        ("test_a.py::TestC::TestD::test_b", "test_a/TestC.TestD.test_b"),
        ("test_a.py::test_b[1.5-bern]", "test_a/test_b-1.5-bern"),
        ("test_a.py::test_b[Bern]", "test_a/test_b-bern-89018aca"),
        ("test_a.py::test_b[a/../b::c]", "test_a/test_b-a-..-b-c-7bc6904f"),
        ("test_a.py::test_b[]", "test_a/test_b-b3435307"),
        ("test_a.py::test_b[x.jsonl]", "test_a/test_b-x.jsonl-310a46b8"),
        ("../other/test_a.py::test_b", "test_a-d36ec18f/test_b"),
        ("test_a.py::test_größe", "test_a/test_gr-e-379d29ff"),
    ],
    ids=range(9),
)
def test_a_cassette_is_named_after_its_test(test: str, name: str) -> None:
    found = default_name(test)
    assert found == name
    assert unsafe_reason(found) is None


def test_names_that_some_file_systems_take_for_one_differ() -> None:
    tests = ["[get]", "[GET]", "[Get]", "[a b]", "[a-b]", "[a_b]", "[a/b]", "[]", ""]
    names = {default_name(f"test_a.py::test_b{brackets}").casefold() for brackets in tests}
    assert len(names) == len(tests)


def test_long_names_are_cut_and_stay_apart() -> None:
    one, other = (default_name(f"test_a.py::test_b[{'x' * 3000}{end}]") for end in "yz")
    assert one != other
    assert max(len(part) for part in one.split("/")) < 130
