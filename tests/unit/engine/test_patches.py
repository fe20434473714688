"""Patches: in place while somebody needs them, and gone without a trace."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Callable
from datetime import date
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from reenact.engine.patches.patch import DeferredPatch, DeferredPatches, Patch, PatchSet, TypePatch
from reenact.engine.patches.registry import PATCH_GROUPS


class Base:
    def inherited(self) -> str:
        return "inherited"


class Owner(Base):
    def method(self) -> str:
        """What it does."""
        return "method"

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__

    @staticmethod
    def static() -> str:
        return "static"


def _loud(original: Callable[..., str]) -> Callable[..., str]:
    return lambda *args: original(*args).upper()


@pytest.mark.parametrize("name", ["method", "of_class", "static", "inherited"])
def test_what_is_patched_is_put_back_as_it_was(name: str) -> None:
    before = dict(vars(Owner))
    plain = getattr(Owner(), name)()
    patch = Patch(Owner, name, _loud)
    patch.install()
    assert getattr(Owner(), name)() == plain.upper()
    patch.remove()
    assert getattr(Owner(), name)() == plain
    assert dict(vars(Owner)) == before


def test_a_patched_function_looks_like_the_one_it_stands_for() -> None:
    patch = Patch(Owner, "method", _loud)
    patch.install()
    try:
        assert Owner.method.__name__ == "method"
        assert Owner.method.__doc__ == "What it does."
    finally:
        patch.remove()


def test_a_patched_function_of_a_class_can_be_called_through_a_subclass() -> None:
    class Sub(Owner):
        pass

    patch = Patch(Owner, "static", _loud)
    patch.install()
    try:
        assert Sub().static() == Sub.static() == "STATIC"
    finally:
        patch.remove()


def test_a_value_of_a_module_is_replaced_as_it_is() -> None:
    owner = SimpleNamespace(value=1)
    patch = Patch(owner, "value", lambda value: value + 1)
    patch.install()
    assert owner.value == 2
    patch.remove()
    assert owner.value == 1


def test_who_replaced_ours_stays_and_ours_is_switched_off() -> None:
    owner = SimpleNamespace(speak=lambda: "word")
    first = Patch(owner, "speak", _loud)
    first.install()
    ours = owner.speak
    owner.speak = theirs = lambda: f"<{ours()}>"
    assert owner.speak() == "<WORD>"
    first.remove()
    assert owner.speak is theirs
    assert owner.speak() == "<word>"
    second = Patch(owner, "speak", lambda original: lambda: f"{original()}!")
    second.install()
    assert owner.speak() == "<word>!"
    second.remove()
    assert owner.speak is theirs


def _watched(log: list[str], name: str, *, fails: bool = False) -> Any:
    def install() -> None:
        if fails:
            raise RuntimeError(name)
        log.append(f"+{name}")

    return SimpleNamespace(install=install, remove=lambda: log.append(f"-{name}"))


def test_patches_are_installed_for_the_first_and_removed_after_the_last() -> None:
    log: list[str] = []
    patches = PatchSet(lambda: [_watched(log, "a"), _watched(log, "b")])
    patches.acquire()
    patches.acquire()
    patches.release()
    assert log == ["+a", "+b"]
    patches.release()
    assert log == ["+a", "+b", "-b", "-a"]
    patches.acquire()
    assert log[4:] == ["+a", "+b"]


def test_if_one_fails_none_is_installed() -> None:
    log: list[str] = []
    failing = [True]
    patches = PatchSet(lambda: [_watched(log, "a"), _watched(log, "b", fails=failing[0])])
    with pytest.raises(RuntimeError, match="b"):
        patches.acquire()
    assert log == ["+a", "-a"]
    failing[0] = False
    patches.acquire()
    assert log[2:] == ["+a", "+b"]


def test_many_threads_acquire_and_release() -> None:
    log: list[str] = []
    patches = PatchSet(lambda: [_watched(log, "a")])

    def work() -> None:
        for _ in range(200):
            patches.acquire()
            patches.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log == ["+a", "-a"] * (len(log) // 2)
    assert patches._users == 0


def test_after_a_fork_the_lock_is_free() -> None:
    patches = PatchSet(list)
    patches._lock.acquire()
    patches.after_fork()
    patches.acquire()
    assert patches._users == 1


@pytest.fixture
def late_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = "imported_late_for_patches"
    text = "class Owner:\n    def speak(self):\n        return 'word'\n"
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def _import(name: str) -> ModuleType:
    module = __import__(name)
    sys.modules.pop(name)
    return module


def test_a_module_is_patched_when_it_is_imported(late_module: str) -> None:
    patch = DeferredPatch(late_module, lambda module: module.Owner, "speak", _loud)
    patch.install()
    try:
        module = _import(late_module)
        assert module.Owner().speak() == "WORD"
    finally:
        patch.remove()
    assert module.Owner().speak() == "word"


@pytest.mark.parametrize(
    "find, name", [(lambda module: module.Absent, "speak"), (lambda module: module.Owner, "absent")]
)
def test_a_version_that_is_made_otherwise_is_left_alone(
    late_module: str, find: Callable[[ModuleType], Any], name: str
) -> None:
    patch = DeferredPatch(late_module, find, name, _loud)
    patch.install()
    try:
        assert _import(late_module).Owner().speak() == "word"
    finally:
        patch.remove()


def test_a_module_that_is_never_imported_leaves_no_trace(late_module: str) -> None:
    before = list(sys.meta_path)
    patch = DeferredPatch(late_module, lambda module: module.Owner, "speak", _loud)
    patch.install()
    patch.remove()
    assert sys.meta_path == before


def test_patches_are_made_when_their_module_is_imported(late_module: str) -> None:
    made: list[ModuleType] = []

    def make(module: ModuleType) -> list[Patch]:
        made.append(module)
        return [Patch(module.Owner, "speak", _loud)]

    patches = DeferredPatches(late_module, make)
    for _ in range(2):
        patches.install()
        try:
            module = import_module(late_module)
            assert module.Owner().speak() == "WORD"
        finally:
            patches.remove()
        assert module.Owner().speak() == "word"
    assert made == [module, module] == [sys.modules.pop(late_module)] * 2


def test_patches_of_a_module_that_is_never_imported_are_never_made(late_module: str) -> None:
    before = list(sys.meta_path)
    patches = DeferredPatches(late_module, lambda module: pytest.fail("nobody imports it"))
    patches.install()
    patches.remove()
    assert sys.meta_path == before


def test_type_written_in_c_is_patched_for_objects_that_exist_already() -> None:
    made = sqlite3.connect(":memory:")
    patch = TypePatch(sqlite3.Connection, "execute", lambda original: lambda *args: "patched")
    before = vars(sqlite3.Connection)["execute"]
    for _ in range(3):
        patch.install()
        assert str(made.execute("SELECT 1")) == "patched"
        patch.remove()
        assert vars(sqlite3.Connection)["execute"] is before
        assert made.execute("SELECT 1").fetchone() == (1,)
    made.close()


def test_class_method_of_a_type_written_in_c_is_patched() -> None:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda cls, text: (cls, original(cls, text))

    patch = TypePatch(date, "fromisoformat", wrap)
    patch.install()
    try:
        assert date.fromisoformat("2026-11-17") == (date, date(2026, 11, 17))
    finally:
        patch.remove()
    assert date.fromisoformat("2026-11-17") == date(2026, 11, 17)


def test_setting_an_attribute_of_a_type_written_in_c_is_patched() -> None:
    made = sqlite3.connect(":memory:")

    def wrap(original: Callable[..., None]) -> Callable[..., None]:
        return lambda it, value: original(it, value.upper())

    patch = TypePatch(sqlite3.Connection, "isolation_level", wrap)
    for _ in range(3):
        patch.install()
        made.isolation_level = "immediate"  # type: ignore[assignment]
        assert made.isolation_level == "IMMEDIATE"
        patch.remove()
        made.isolation_level = None
        assert made.isolation_level is None
    made.close()


def test_registry_lists_every_patch_of_the_interpreter() -> None:
    places = {group.name: group.places() for group in PATCH_GROUPS}
    assert all(places.values())
    assert places["threads"] == ["Thread.start"]
    assert "BaseEventLoop.call_at" in places["event loops"]
    listed = [place for group in places.values() for place in group]
    assert len(listed) == len(set(listed))
