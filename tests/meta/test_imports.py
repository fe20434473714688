"""Every module imports alone, and importing only defines things."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.tree import SOURCE, modules

HEAVY = {"msgspec", "orjson", "cryptography", "hyperscan", "argparse", "shtab"}

# Runs in an interpreter of its own. The audit hook sees what is done and undone; threads and
# descriptors are counted afterwards.
_PROBE = """
import os, sys

ACTS = (
    "os.exec", "os.fork", "os.mkdir", "os.putenv", "os.remove", "os.rename", "os.rmdir", "os.system",
    "os.posix_spawn", "os.unsetenv", "shutil.", "signal.", "socket.bind", "socket.connect",
    "subprocess.", "tempfile.", "_thread.start_new_thread",
)
acts = []

def hook(event, args):
    writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
    if watching and (writes or event.startswith(ACTS)):
        acts.append(f"{event} {args!r}")

def descriptors():
    return set(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else set()

watching = False
sys.addaudithook(hook)

def probe(*modules):
    global watching
    before = descriptors()
    watching = True
    for module in modules:
        __import__(module)
    watching = False
    left_open = sorted(descriptors() - before)
    import json, threading
    threads = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    print(json.dumps({"acts": acts, "descriptors": left_open, "threads": threads}))

probe(*sys.argv[1:])
"""
_NOTHING: dict[str, list[str]] = {"acts": [], "descriptors": [], "threads": []}


def _fresh(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-B", "-W", "error", "-X", "utf8", "-c", code, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


def _check(*modules: str) -> None:
    done = _fresh(_PROBE, *modules)
    assert done.returncode == 0, f"import {' '.join(modules)}\n{done.stderr}"
    assert done.stderr == ""
    assert json.loads(done.stdout) == _NOTHING


def test_importing_modules_only_defines_things() -> None:
    _check(*modules())


@pytest.mark.soak_only
@pytest.mark.parametrize("module", modules())
def test_module_imports_alone_and_only_defines_things(module: str) -> None:
    _check(module)


def test_importing_the_package_stays_light() -> None:
    done = _fresh("import sys, reenact; print(*sorted(sys.modules), sep='\\n')")
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & HEAVY == set()


def test_the_tree_is_what_is_being_tested() -> None:
    done = _fresh("import reenact; print(reenact.__file__)")
    assert Path(done.stdout.strip()).parent == SOURCE / "reenact"
