"""The wheel, and two environments it is installed into, made once per source state.

Both live in `.cache/installed/`, under a name made from the pins and the interpreter, so a second run only
replaces the wheel. A lock file lets several test workers share them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.meta.tree import ROOT, SOURCE

_CACHE = ROOT / ".cache" / "installed"
_WHEELS = ROOT / ".cache" / "wheels"


@dataclass(frozen=True)
class Installation:
    """A virtual environment with the wheel in it, and nothing of the source tree."""

    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def python(self) -> Path:
        return self.bin / "python"

    def environment(self, home: Path) -> dict[str, str]:
        """What a user of this environment has, with everything personal below `home`."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST_"))}
        return kept | {
            "COLUMNS": "100",
            "HOME": str(home),
            "NO_COLOR": "1",
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "REENACT_CONFIG_DIR": str(home / "config"),
            "TERM": "dumb",
            "VIRTUAL_ENV": str(self.folder),
        }

    def run(self, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment in `cwd`; the caller looks at the exit code."""
        return subprocess.run(
            [str(self.bin / command[0]), *map(str, command[1:])],
            cwd=cwd,
            env=self.environment(cwd),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The wheel of the tree as it stands."""
    with _locked("wheel"):
        folder = _CACHE / "wheel" / _digest(_wheel_sources())
        if not list(folder.glob("*.whl")):
            _forget_old(folder.parent)
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", str(part), str(ROOT)]
            _run([sys.executable, *build])
            part.rename(folder)
        (found,) = folder.glob("*.whl")
        return found


@pytest.fixture(scope="session")
def core(wheel: Path) -> Installation:
    """The wheel without any extra."""
    return _installation("core", wheel, "")


@pytest.fixture(scope="session")
def full(wheel: Path) -> Installation:
    """The wheel with the extra `all`; the documentation is tested here."""
    return _installation("full", wheel, "[all]")


def _forget_old(folder: Path) -> None:
    """Remove what was built more than an hour ago; another run may be using what is younger."""
    for old in folder.glob("*"):
        if time.time() - old.stat().st_mtime > 3600:
            shutil.rmtree(old)


def _installation(name: str, wheel: Path, extra: str) -> Installation:
    pins = [ROOT / "constraints.txt", ROOT / "pyproject.toml"]
    folder = _CACHE / f"{name}-{_digest(pins)}"
    stamp = folder / "wheel-digest"
    wanted = wheel.parent.name
    with _locked(name):
        have = stamp.read_text(encoding="utf-8") if stamp.exists() else ""
        if have == wanted:
            return Installation(folder)
        stamp.unlink(missing_ok=True)
        if not have:
            for old in _CACHE.glob(f"{name}-*"):
                shutil.rmtree(old)
            _run([sys.executable, "-m", "venv", str(folder)])
        _install(folder, f"{wheel}{extra}", fresh=not have)
        stamp.write_text(wanted, encoding="utf-8")
    return Installation(folder)


def _install(folder: Path, what: str, *, fresh: bool) -> None:
    source = ["--no-index", f"--find-links={_WHEELS}"] if any(_WHEELS.glob("*.whl")) else []
    again = [] if fresh else ["--force-reinstall", "--no-deps"]
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
    _run([*map(str, pip), *source, *again, "-c", str(ROOT / "constraints.txt"), what])


def _wheel_sources() -> list[Path]:
    package = (p for p in SOURCE.rglob("*") if "__pycache__" not in p.parts)
    around = [ROOT / name for name in ("pyproject.toml", "README.md", "LICENSE")]
    return sorted(p for p in (*package, *around) if p.is_file())


def _digest(files: list[Path]) -> str:
    total = hashlib.sha256(sys.version.encode())
    total.update(os.path.realpath(sys.executable).encode())
    for file in files:
        total.update(str(file).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:16]


@contextmanager
def _locked(name: str) -> Iterator[None]:
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / f"{name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=300,
    )
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}", pytrace=False)
