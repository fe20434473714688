"""Functions that are replaced wherever the user has a name for them, and put back."""

from __future__ import annotations

import gc
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from reenact.boundaries.function_patches import Rebinding, like_builtin

Modules = Callable[..., ModuleType]


@pytest.fixture
def module() -> Iterator[Modules]:
    """``module("name", now=…)``: a module of the user's that has been imported, for this test."""
    made: list[str] = []

    def make(name: str, **names: Any) -> ModuleType:
        found = ModuleType(name)
        vars(found).update(names)
        sys.modules[name] = found
        made.append(name)
        return found

    yield make
    for name in made:
        sys.modules.pop(name, None)


class Unhashable:
    """Somebody's stand-in for a clock."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __call__(self) -> int:
        return 1


def plain() -> int:
    return 1


def _wrapped(original: Any) -> Any:
    return lambda: ("replaced", original())


def _as_builtin(original: Any) -> Any:
    def stand_in(_: Any, /) -> Any:
        return "replaced", original()

    return like_builtin(stand_in, original)


ORIGINALS = {
    "a function": (plain, _wrapped),
    "a builtin": (time.time, _as_builtin),
    "a class": (dict, _wrapped),
    "a method": ("text".upper, _wrapped),
    "an object": (Unhashable(), _wrapped),
}


@pytest.mark.parametrize("kind", ORIGINALS)
def test_every_name_is_rebound_and_put_back(kind: str, module: Modules) -> None:
    original, make = ORIGINALS[kind]
    owner = module("the_owner", now=original, alias=original)
    user = module("a_user", now=original, again=original, other=len, text="now")
    rebinding = Rebinding(owner, {"now": make})
    for _ in range(2):  # the second time it is known what will be sought
        rebinding.install()
        new = owner.now
        assert new()[0] == "replaced"
        assert all(one is new for one in (owner.alias, user.now, user.again))
        assert (user.other, user.text) == (len, "now")
        rebinding.remove()
        assert all(one is original for one in (owner.now, owner.alias, user.now, user.again))


def test_what_is_equal_and_not_the_same_is_left_alone(module: Modules) -> None:
    text = "text"
    one, other = text.upper, text.upper
    assert (one == other, one is other) == (True, False)
    owner, user = module("the_owner", now=one), module("a_user", now=other)
    rebinding = Rebinding(owner, {"now": _wrapped})
    rebinding.install()
    assert user.now is other
    rebinding.remove()
    assert (owner.now is one, user.now is other) == (True, True)


def test_two_that_replace_one_another(module: Modules) -> None:
    owner, user = module("the_owner", now=plain), module("a_user", now=plain)
    first, second = (Rebinding(owner, {"now": _wrapped}) for _ in range(2))
    for _ in range(2):
        first.install()
        second.install()
        assert user.now() == ("replaced", ("replaced", 1))
        second.remove()
        assert user.now() == ("replaced", 1)
        first.remove()
        assert user.now is plain


def test_a_name_that_was_made_meanwhile_is_put_back(module: Modules) -> None:
    owner, user = module("the_owner", now=plain), module("a_user")
    rebinding = Rebinding(owner, {"now": _wrapped})
    rebinding.install()
    vars(user)["late"] = owner.now
    late = module("a_late_user", now=owner.now)
    rebinding.remove()
    assert user.late is plain
    assert late.now is plain


def test_a_name_that_was_made_between_two_sessions_is_rebound(module: Modules) -> None:
    """In a module that is looked through for the second time, and under a name that it had."""
    owner, user = module("the_owner", now=plain), module("a_user", now=len)
    rebinding = Rebinding(owner, {"now": _wrapped})
    rebinding.install()
    rebinding.remove()
    vars(user)["now"] = plain
    rebinding.install()
    assert user.now() == ("replaced", 1)
    rebinding.remove()
    assert user.now is plain


def test_what_somebody_else_has_put_there_stays(module: Modules) -> None:
    owner, user = module("the_owner", now=plain), module("a_user", now=plain)
    rebinding = Rebinding(owner, {"now": _wrapped})
    rebinding.install()
    vars(user)["now"] = vars(owner)["now"] = len
    rebinding.remove()
    assert (owner.now, user.now) == (len, len)


def test_nothing_is_held_when_all_are_removed(module: Modules) -> None:
    def original() -> int:
        return 1

    owner, user = module("the_owner", now=original), module("a_user", now=original)
    rebinding = Rebinding(owner, {"now": _wrapped})
    rebinding.install()
    held = [weakref.ref(one) for one in (owner.now, original, owner, user)]
    rebinding.remove()
    del sys.modules["the_owner"], sys.modules["a_user"]
    del rebinding, owner, user, original
    gc.collect()
    assert [one() for one in held] == [None] * 4
