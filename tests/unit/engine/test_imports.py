"""Acting on a module when it is imported: once, and the import is as it would be without."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from reenact.engine.patches.patch import ImportHook

NAME = "watched_for_a_test"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
        del sys.modules[name]


def _write(folder: Path, text: str = "value = 1\n") -> None:
    (folder / f"{NAME}.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()


class _Watch:
    def __init__(self, name: str = NAME) -> None:
        self.seen: list[ModuleType] = []
        self.watch = ImportHook(name, self.seen.append)

    def __enter__(self) -> _Watch:
        self.watch.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.remove()


def test_it_acts_right_after_the_import_and_once(folder: Path) -> None:
    _write(folder)
    with _Watch() as watch:
        assert watch.seen == []
        module = importlib.import_module(NAME)
        importlib.import_module(NAME)
        assert watch.seen == [module]
        assert module.value == 1


def test_it_acts_at_once_on_what_is_there(folder: Path) -> None:
    _write(folder)
    module = importlib.import_module(NAME)
    before = list(sys.meta_path)
    with _Watch() as watch:
        assert watch.seen == [module]
        assert sys.meta_path == before


def test_the_module_is_as_if_nobody_had_watched(folder: Path) -> None:
    _write(folder)
    plain = importlib.import_module(NAME)
    del sys.modules[NAME]
    with _Watch():
        module = importlib.import_module(NAME)
    assert module is not plain
    assert type(module.__loader__) is type(plain.__loader__)
    assert module.__spec__ is not None
    assert module.__spec__.loader is module.__loader__
    assert importlib.reload(module) is module


def test_it_works_for_a_module_of_a_package(folder: Path) -> None:
    (folder / NAME).mkdir()
    (folder / NAME / "__init__.py").write_text("", encoding="utf-8")
    (folder / NAME / "inner.py").write_text("value = 2\n", encoding="utf-8")
    importlib.invalidate_caches()
    with _Watch(f"{NAME}.inner") as watch:
        importlib.import_module(NAME)
        assert watch.seen == []
        importlib.import_module(f"{NAME}.inner")
        assert [module.value for module in watch.seen] == [2]


def test_an_import_that_fails_fails_as_it_would(folder: Path) -> None:
    _write(folder, "raise ValueError('broken')\n")
    with _Watch() as watch:
        with pytest.raises(ValueError, match="broken"):
            importlib.import_module(NAME)
        assert watch.seen == []
        _write(folder, "value = 3  # mended\n")
        importlib.import_module(NAME)
        assert [module.value for module in watch.seen] == [3]


def test_a_module_that_does_not_exist_is_not_found() -> None:
    with _Watch("absent_for_a_test") as watch:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("absent_for_a_test")
        assert watch.seen == []


def test_after_its_removal_it_does_not_act(folder: Path) -> None:
    _write(folder)
    before = list(sys.meta_path)
    with _Watch() as watch:
        pass
    assert sys.meta_path == before
    importlib.import_module(NAME)
    assert watch.seen == []
    watch.watch.remove()  # once more does no harm


def test_many_who_wait_for_modules_cost_an_import_no_more_than_one(folder: Path) -> None:
    _write(folder)
    before = list(sys.meta_path)
    order: list[str] = []
    watches = [
        ImportHook(NAME, lambda _: order.append("first")),
        ImportHook(NAME, lambda _: order.append("second")),
        ImportHook("absent_for_a_test", lambda _: order.append("never")),
    ]
    watches[0].install()  # adds the finder, unless a test before this one still needs it
    finders = len(sys.meta_path)
    for watch in watches[1:]:
        watch.install()
    try:
        assert len(sys.meta_path) == finders
        importlib.import_module(NAME)
        assert order == ["first", "second"]
    finally:
        for watch in watches:
            watch.remove()
    assert sys.meta_path == before
