"""Functions whose inside is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

from reenact.boundaries.function_patches import InsidePatch


@asynccontextmanager
async def opened(word: str) -> AsyncIterator[str]:
    yield f"really {word}"


held = opened
"""Somebody else's name for it."""


def _library(function: Any) -> ModuleType:
    library = ModuleType("library")
    library.opened = function  # type: ignore[attr-defined]
    return library


def _instead(original: Callable[..., AsyncIterator[str]]) -> Callable[..., AsyncIterator[str]]:
    async def connected(word: str) -> AsyncIterator[str]:
        async with asynccontextmanager(original)(word) as found:
            yield f"instead of {found}"

    return connected


async def _said(function: Any) -> Any:
    async with function("a") as found:
        return found


def test_it_is_replaced_for_all_who_have_a_name_for_it() -> None:
    patch = InsidePatch(_library(opened), "opened", _instead)
    patch.install()
    try:
        assert asyncio.run(_said(held)) == "instead of really a"
    finally:
        patch.remove()
    assert asyncio.run(_said(held)) == "really a"
    assert patch.places == ["library.opened"]


def test_what_somebody_else_has_put_there_stays() -> None:
    first = InsidePatch(_library(opened), "opened", _instead)
    second = InsidePatch(_library(opened), "opened", _instead)
    first.install()
    second.install()
    first.remove()
    assert asyncio.run(_said(held)) == "instead of instead of really a"
    second.remove()
    first.remove()
    assert asyncio.run(_said(held)) == "really a"


def test_a_function_that_is_made_in_another_way_is_left_alone() -> None:
    def plain(word: str) -> Any:
        return opened(word)

    patch = InsidePatch(_library(plain), "opened", _instead)
    patch.install()
    assert asyncio.run(_said(plain)) == "really a"
    patch.remove()
