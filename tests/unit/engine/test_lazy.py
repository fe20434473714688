"""Things that are loaded when they are first needed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from reenact.engine._lazy import LazyObject, lazy_module


def test_it_is_loaded_when_something_is_asked_of_it() -> None:
    loaded: list[str] = []

    def load() -> SimpleNamespace:
        loaded.append("now")
        return SimpleNamespace(one=object(), two=2)

    late = LazyObject(load)
    assert loaded == []
    assert late.one is late.one
    assert (late.two, loaded) == (2, ["now", "now"])


def test_a_module_has_what_it_has() -> None:
    late = lazy_module("string")
    import string

    assert late.digits is string.digits
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = late.absent


def test_a_module_that_is_not_there_is_missed_when_it_is_needed() -> None:
    late = lazy_module("no_such_module_for_a_test")
    with pytest.raises(ModuleNotFoundError):
        _ = late.anything
