"""Every module imports alone, and importing only defines things."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.meta.tree import SOURCE, modules

HEAVY = {"msgspec", "orjson", "cryptography", "hyperscan", "argparse", "shtab"}

# Where others' modules take most of the time to import. They are in the host before it is asked for ours;
# in `make soak` each of ours is imported in an interpreter that has nothing.
OF_OTHERS = (
    "asyncio",
    "cryptography.hazmat.primitives.asymmetric.ed25519",
    "email.message",
    "httpx",
    "hyperscan",
    "logging",
    "msgspec",
    "orjson",
    "sqlalchemy.ext.asyncio",
    "starlette.applications",
    "uuid",
    "uvicorn",
)

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

def probe(module):
    global watching
    before = descriptors()
    watching = True
    __import__(module)
    watching = False
    left_open = sorted(descriptors() - before)
    import json, threading
    threads = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    print(json.dumps({"acts": acts, "descriptors": left_open, "threads": threads}))
"""
_ALONE = f"{_PROBE}\nprobe(sys.argv[1])"

# Forks for each name that it is told; the child says what the probe says, and ends as any program does.
_HOST = f"""{_PROBE}
import gc
for other in sys.argv[1:]:
    __import__(other)
gc.freeze()  # what a child need not look at when it ends, is not copied for it
while place := sys.stdin.readline().rstrip("\\n"):
    module = sys.stdin.readline().rstrip("\\n")
    child = os.fork()
    if not child:
        for number, name in (1, "out"), (2, "err"):
            file = os.open(os.path.join(place, name), os.O_WRONLY | os.O_CREAT)
            os.dup2(file, number)
            os.close(file)
        assert not [name for name in sys.modules if name.partition(".")[0] == "reenact"]
        probe(module)
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

Probe = Callable[[str], "subprocess.CompletedProcess[str]"]


def _interpreter(code: str, *args: str) -> list[str]:
    return [sys.executable, "-I", "-B", "-W", "error", "-X", "utf8", "-c", code, *args]


def _fresh(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _interpreter(code, *args),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


@pytest.fixture(scope="module")
def host() -> Iterator[subprocess.Popen[str]]:
    """Compiled beforehand: nobody here may write, and each would compile all that it imports."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", SOURCE], check=True)
    with subprocess.Popen(
        _interpreter(_HOST, *OF_OTHERS),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        yield process


@pytest.fixture
def probe(host: subprocess.Popen[str], tmp_path: Path, rounds: Callable[[int, int], int]) -> Probe:
    def forked(module: str) -> subprocess.CompletedProcess[str]:
        assert host.stdin is not None
        assert host.stdout is not None
        host.stdin.write(f"{tmp_path}\n{module}\n")
        host.stdin.flush()
        code = int(host.stdout.readline())
        said = ((tmp_path / name).read_text("utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess(module, code, *said)

    return (lambda module: _fresh(_ALONE, module)) if rounds(0, 1) else forked


@pytest.mark.soak
@pytest.mark.parametrize("module", modules())
def test_module_imports_alone_and_only_defines_things(module: str, probe: Probe) -> None:
    done = probe(module)
    assert done.returncode == 0, f"import {module}\n{done.stderr}"
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"acts": [], "descriptors": [], "threads": []}


def test_importing_the_package_stays_light() -> None:
    done = _fresh("import sys, reenact; print(*sorted(sys.modules), sep='\\n')")
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & HEAVY == set()


def test_the_tree_is_what_is_being_tested() -> None:
    done = _fresh("import reenact; print(reenact.__file__)")
    assert Path(done.stdout.strip()).parent == SOURCE / "reenact"
