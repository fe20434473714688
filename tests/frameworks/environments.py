"""The virtual environments in which frameworks are tried: what they hold, and how they are built.

``requirements/NAME.in`` says what is wanted, ``requirements/NAME.txt`` what that resolves to,
exactly. An environment is built when it is first asked for, into a folder that has the digest of its
pins in its name, and is used again until they change::

    python -m tests.frameworks.environments          build all of them
    python -m tests.frameworks.environments renew    resolve the pins anew
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["CACHE", "IN_CI", "NAMES", "Unavailable", "build", "locked", "pins", "run_tool"]

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache"
IN_CI = os.environ.get("CI", "") not in ("", "0", "false")
"""Read here because no test sees the variable."""

_HERE = Path(__file__).resolve().parent / "requirements"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
_PATIENCE = 600

NAMES = tuple(sorted(path.stem for path in _HERE.glob("*.in")))
"""The environments there are."""


class Unavailable(Exception):
    """An environment or a server cannot be had on this machine; says why and what to do."""


def pins(name: str) -> dict[str, str]:
    """The packages of the environment ``name``, and their versions."""
    return dict(_PIN.findall(_pinned(name).read_text("utf-8")))


def build(name: str) -> Path:
    """The interpreter of the environment ``name``, which is built first where it is not there."""
    text = _pinned(name).read_bytes() + sys.version.encode()
    folder = CACHE / "environments" / f"{name}-{hashlib.sha256(text).hexdigest()[:12]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists():
        return python
    with locked(folder):
        if not complete.exists():
            _make(name, folder, python)
            complete.touch()
    return python


def _make(name: str, folder: Path, python: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    hint = "hint: packages are installed with uv; is the package index of this machine reachable?"
    run_tool([_uv(), "venv", "--python", sys.executable, folder], hint)
    said = ["--no-deps", "--python", str(python)]  # compiled when imported: most of it never is
    run_tool([_uv(), "pip", "install", *said, "-r", _pinned(name)], hint)


def renew(names: Sequence[str]) -> None:
    """Resolve what is wanted to what there is now."""
    for name in names:
        said = ["--universal", "--python-version", "3.11", "--no-annotate", "--no-header"]
        wanted = (_HERE / f"{name}.in").relative_to(ROOT)
        command: list[str | Path] = [
            _uv(),
            "pip",
            "compile",
            *said,
            "--upgrade",
            wanted,
            "-o",
            _pinned(name),
        ]
        run_tool(command, "hint: is the package index of this machine reachable?")


def _pinned(name: str) -> Path:
    return _HERE / f"{name}.txt"


def _uv() -> Path:
    return Path(sys.executable).parent / "uv"


def run_tool(command: Sequence[str | Path], hint: str, **environ: str) -> None:
    """Run ``command`` to its end. Raises :class:`Unavailable` with what it said last."""
    words = [str(word) for word in command]
    try:
        subprocess.run(
            words,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, **environ},
            timeout=_PATIENCE,
        )
    except FileNotFoundError:
        raise Unavailable(f"{words[0]} is not installed\n{hint}") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{words[0]} did not end within {_PATIENCE} s\n{hint}") from None
    except subprocess.CalledProcessError as error:
        said = error.stdout.decode("utf-8", "replace").splitlines()[-15:]
        what = " ".join([Path(words[0]).name, *words[1:3]])
        raise Unavailable("\n".join([f"{what} failed:", *said, hint])) from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else builds ``folder`` meanwhile, in this process or another."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _main(words: Sequence[str]) -> None:
    if words == ["renew"]:
        renew(NAMES)
    for name in NAMES:
        print(f"{name}: {build(name).parent.parent.relative_to(ROOT)}")


if __name__ == "__main__":
    _main(sys.argv[1:])
