"""An attribute that is another one for some time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from reenact.boundaries.function_patches import Attribute


def _twice(original: Any) -> Any:
    return lambda: original() * 2


def test_it_is_another_and_then_itself_again() -> None:
    owner = SimpleNamespace(f=lambda: 2)
    before = owner.f
    attribute = Attribute(owner, "f", _twice)
    for _ in range(2):
        attribute.install()
        assert owner.f() == 4
        attribute.remove()
        assert owner.f is before


def test_what_somebody_else_has_put_there_stays() -> None:
    owner = SimpleNamespace(f=lambda: 2)
    attribute = Attribute(owner, "f", _twice)
    attribute.install()
    owner.f = len
    attribute.remove()
    assert owner.f is len


def test_an_owner_without_it_is_left_alone() -> None:
    owner = SimpleNamespace()
    attribute = Attribute(owner, "f", _twice)
    attribute.install()
    attribute.remove()
    assert vars(owner) == {}
