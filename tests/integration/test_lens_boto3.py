"""The one SDK that is at hand: boto3 and the lens see the same in the same bytes."""

from __future__ import annotations

import pytest

from tests.frameworks.programs.lens_check import CHECKS, Check, differences

BOTO3 = [check for check in CHECKS if check.package == "boto3"]


@pytest.mark.parametrize("check", BOTO3, ids=lambda check: check.ask.__name__)
def test_boto3_and_the_lens_see_the_same(check: Check) -> None:
    assert list(differences(check)) == []


def test_a_difference_is_named() -> None:
    told = list(differences(BOTO3[0]._replace(lens="ollama.chat")))
    assert any(one.startswith("text: the lens says ''") for one in told)
