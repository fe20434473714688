"""A small project with tests, which a pytest of its own runs."""

from __future__ import annotations

import json
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from reenact.store.reader import open_recording
from tests.plugin.world import World

__all__ = ["Project"]

_TOP = "import httpx, pytest\nURL = {url!r}\ndef get(path, **query):\n    return httpx.get(URL + path, params=query).json()\n"
_KNOWN = {entry.name for entry in entry_points(group="pytest11")}


class Project:
    """Files, and runs of pytest over them. Nothing is loaded but our plugin and what is named."""

    def __init__(self, pytester: pytest.Pytester, world: World) -> None:
        self._pytester = pytester
        self.world = world
        self.root = pytester.path
        self.settings(asyncio="")
        self.write("world.py", _TOP.format(url=world.url))

    def settings(self, *lines: str, asyncio: str = "") -> None:
        own = [asyncio] if asyncio else []
        text = "\n".join(["[pytest]", "filterwarnings = error", "pythonpath = .", *own, *lines])
        self.write("pytest.ini", text + "\n")

    def write(self, name: str, text: str) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def run(self, *words: str, plugins: tuple[str, ...] = ()) -> pytest.RunResult:
        """Children share no plugin with us that a test does not name."""
        own = "reenact" if "reenact" in _KNOWN else "reenact.pytest_plugin"
        named = [part for plugin in (own, *plugins) for part in ("-p", plugin)]
        command = (sys.executable, "-m", "pytest", *named, "-p", "no:cacheprovider", *words)
        return self._pytester.run(*command, timeout=120)

    def explain(self, cassette: str) -> Any:
        """What ``reenact explain`` says of it, as JSON."""
        command = (sys.executable, "-m", "reenact", "explain", cassette, "--json")
        return json.loads(self._pytester.run(*command, timeout=120).stdout.str())

    @property
    def cassettes(self) -> list[str]:
        folder = self.root / ".reenact" / "cassettes"
        return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.jsonl"))

    def cassette(self, name: str) -> Path:
        return self.root / ".reenact" / "cassettes" / f"{name}.jsonl"

    def hashes(self) -> dict[str, str]:
        """What is in the cassettes, but for times and ids."""
        found = {}
        for name in self.cassettes:
            with open_recording(self.cassette(name.removesuffix(".jsonl"))) as source:
                integrity: Any = source.manifest().integrity
                found[name] = str(integrity.content_hash)
        return found

    def report(self) -> dict[str, Any]:
        """Of a run with ``--reenact-report report.json``: by the test."""
        read = json.loads((self.root / "report.json").read_text("utf-8"))
        assert read["version"] == 1
        return {test["id"]: test for test in read["tests"]}
