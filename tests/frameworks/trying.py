"""A program in an environment of its own, recorded against a model server and replayed without one."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import reenact
from reenact.format.event import Event
from tests.frameworks.environments import ROOT
from tests.integration.running import PATIENCE, Ran

__all__ = ["PROGRAMS", "Trial"]

PROGRAMS = Path(__file__).resolve().parent / "programs"

_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


@dataclass
class Trial:
    """``python`` is the interpreter of an environment, ``folder`` holds programs and recordings,
    ``address`` is where models answer."""

    python: Path
    folder: Path
    address: str
    environ: dict[str, str] = field(default_factory=dict)

    def bring(self, name: str, **edits: str) -> Path:
        """A copy of the program ``name`` in our folder; each edit replaces a text that is there."""
        text = (PROGRAMS / f"{name}.py").read_text("utf-8")
        for old, new in edits.items():
            assert old in text, old
            text = text.replace(old, new)
        place = self.folder / f"{name}.py"
        place.write_text(text, "utf-8")
        return place

    def record(self, program: Path, *words: str, name: str = "c") -> Ran:
        """Run the program with ``words`` and capture it."""
        return self._run("--capture", name, "--", str(self.python), program.name, *words)

    def replay(self, program: Path, *words: str, name: str = "c") -> Ran:
        """Re-enact it."""
        return self._run("--replay", name, "--", str(self.python), program.name, *words)

    def events(self, name: str = "c") -> list[Event]:
        """What was recorded."""
        with reenact.open_recording(self.folder / name) as source:
            return list(source)

    def content_hash(self, name: str = "c") -> str:
        """What two recordings that did the same have in common."""
        manifest: Any = json.loads((self.folder / name / "manifest.json").read_text("utf-8"))
        return str(manifest["integrity"]["contentHash"])

    def _run(self, *words: str) -> Ran:
        done = subprocess.run(
            [self.python, "-m", "reenact", "run", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=self.folder,
            env=self._environ(),
            timeout=PATIENCE,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr.decode())

    def _environ(self) -> dict[str, str]:
        """Where each SDK looks for its server and its key; no user settings, no telemetry."""
        kept = {
            name: os.environ[name]
            for name in ("PATH", "REENACT_CONFIG_DIR", "TMPDIR")
            if name in os.environ
        }
        return {
            **kept,
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(ROOT / "src"),
            **dict.fromkeys(_KEYS, "none-needed-here"),
            "MODEL_SERVER": self.address,
            "OPENAI_BASE_URL": f"{self.address}/v1",
            "ANTHROPIC_BASE_URL": self.address,
            "GEMINI_BASE_URL": self.address,
            "TRACES": f"{self.address}/v1/traces/ingest",
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none-needed-here",
            "AWS_DEFAULT_REGION": "eu-central-1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            **self.environ,
        }
