"""A project folder with sessions in it, and a world that counts how often it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import reenact
from reenact import Session
from reenact.format.event import Event
from reenact.format.manifest import Manifest

__all__ = ["Studio", "outcome"]


class Studio:
    """Sessions below one root; ``warnings`` is everything that they said to the user."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked = 0
        self.warnings: list[str] = []
        self.get = reenact.boundary(self._get)
        self.aget = reenact.boundary(self._aget)
        self.words = reenact.boundary(capability="net.stream")(self._words)
        self.awords = reenact.boundary(capability="net.stream")(self._awords)

    # The world: no two answers are the same.

    def answer(self) -> int:
        self.asked += 1
        return self.asked

    def _get(self, x: Any) -> dict[str, Any]:
        return {"x": x, "n": self.answer()}

    async def _aget(self, x: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"x": x, "n": self.answer()}

    def _words(self, count: int) -> Iterator[str]:
        for number in range(count):
            yield f"w{number}-{self.answer()}"

    async def _awords(self, count: int) -> AsyncIterator[str]:
        for number in range(count):
            await asyncio.sleep(0)
            yield f"w{number}-{self.answer()}"

    # Sessions

    def session(self, name: str | None = "run", **arguments: Any) -> Session:
        given = {"root": self.root, "warn": self.warnings.append, **arguments}
        if "capture" in given or "tape" in given:
            name = None
        return reenact.session(name, **given)

    def record(self, body: Callable[[], Any], name: str = "run", **arguments: Any) -> Any:
        with self.session(name, **{"mode": "record", **arguments}):
            return body()

    def replay(self, body: Callable[[], Any], name: str = "run", **arguments: Any) -> Any:
        """Strict unless told; asks the world nothing."""
        before = self.asked
        with self.session(name, **{"mode": "replay", "strict": True, **arguments}):
            result = body()
        assert self.asked == before
        return result

    # What is on disk

    def path(self, name: str = "run") -> Path:
        return self.root / ".reenact" / "cassettes" / f"{name}.jsonl"

    def manifest(self, place: str | Path = "run") -> Manifest:
        with reenact.open_recording(self._place(place)) as source:
            return source.manifest()

    def events(self, place: str | Path = "run") -> list[Event]:
        """Without those that only say when something was handed over."""
        with reenact.open_recording(self._place(place)) as source:
            return [event for event in source if event.data.get("source") != "schedule"]

    def _place(self, place: str | Path) -> Path:
        return place if isinstance(place, Path) else self.path(place)

    def everything(self) -> dict[str, bytes | None]:
        """Every file and folder below the root."""
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.root.rglob("*"))
        }


def outcome(body: Callable[..., Any], *arguments: Any) -> Any:
    """What ``body`` returns; or the class and the text of what it raises, for comparing."""
    try:
        return body(*arguments)
    except Exception as error:
        return type(error), str(error)
