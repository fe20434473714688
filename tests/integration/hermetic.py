"""A server that counts, and programs that try to reach it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import reenact
from tests.integration.processes import PATIENCE, environment

__all__ = ["Outcome", "Target", "empty_recording", "run_in_session", "run_many", "write_program"]

_PROGRAM = """\
import sys
import reenact

PORT, UDP = int(sys.argv[2]), int(sys.argv[3])
where, mode, strict = sys.argv[1], sys.argv[4], sys.argv[5] == "strict"

def attempt():
{body}

with reenact.session(capture=where, mode=mode, strict=strict, whole_process=True) as session:
    try:
        attempt()
    except {catches} as error:
        print("caught", type(error).__name__)
print("passed", dict(session.machine.passed))
"""


_PROGRAM_OF_MANY = """\
import json
import sys
import reenact

{functions}

def run(name, ports):
    try:
        return str(globals()[name](*ports))
    except BaseException as error:
        return f"{{type(error).__name__}}: {{error}}"

if __name__ == "__main__":
    where, mode, ports, results = sys.argv[1:]
    with reenact.session(capture=where, mode=mode, strict=False, whole_process=True):
        found = {{name: run(name, two) for name, two in json.loads(ports).items()}}
    with open(results, "w", encoding="utf-8") as file:
        json.dump(found, file)
"""


class Target:
    """Two ports, TCP and UDP. What came is counted when nobody can send any more."""

    def __init__(self) -> None:
        self._tcp = socket.create_server(("127.0.0.1", 0), backlog=50)
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        for sock in (self._tcp, self._udp):
            sock.setblocking(False)
        self.tcp: int = self._tcp.getsockname()[1]
        self.udp: int = self._udp.getsockname()[1]

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        self._tcp.close()
        self._udp.close()

    def came(self) -> int:
        """How many connections and datagrams have come since the last time."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self._tcp.accept()[0].close()
                count += 1
        with contextlib.suppress(BlockingIOError):
            while True:
                self._udp.recv(1)
                count += 1
        return count


def empty_recording(path: Path) -> Path:
    """A recording in which nothing happens."""
    with reenact.session(capture=path, mode="record"):
        pass
    return path


def write_program(folder: Path, body: str, *, catches: str = "BaseException") -> Path:
    """A program that does ``body`` in a session, and goes on whatever that raises."""
    path = folder / "program.py"
    indented = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    path.write_text(_PROGRAM.format(body=indented, catches=catches), encoding="utf-8")
    return path


@dataclass(frozen=True)
class Outcome:
    """What became of one body: what it returned or raised, and what came to its own server."""

    said: str
    came: int


def run_many(folder: Path, bodies: Mapping[str, str], mode: str) -> dict[str, Outcome]:
    """Run every body, a function of PORT and UDP, in one session of one process."""
    functions = (
        f"def {name}(PORT, UDP):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}"
        for name, body in bodies.items()
    )
    program, results = folder / "program.py", folder / "results.json"
    program.write_text(_PROGRAM_OF_MANY.format(functions="\n\n".join(functions)), encoding="utf-8")
    where = empty_recording(folder / "recording") if mode == "replay" else folder / "made"
    with contextlib.ExitStack() as stack:
        targets = {name: stack.enter_context(Target()) for name in bodies}
        ports = {name: (target.tcp, target.udp) for name, target in targets.items()}
        done = subprocess.run(
            [sys.executable, program, where, mode, json.dumps(ports), results],
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
            env=environment(),
            cwd=folder,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = json.loads(results.read_text(encoding="utf-8"))
        return {
            name: Outcome(" ".join(said[name].split()), target.came())
            for name, target in targets.items()
        }


def run_in_session(
    program: Path,
    target: Target,
    mode: str,
    *,
    strict: bool = True,
    before: Sequence[str] = (),
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run ``program`` with a session in ``mode`` around it; ``before`` stands before its command."""
    recording = program.parent / "recording"
    if mode == "replay" and not recording.exists():
        empty_recording(recording)
    where = program.parent / "made" if mode == "record" else recording
    return subprocess.run(
        [
            *before,
            sys.executable,
            program,
            where,
            str(target.tcp),
            str(target.udp),
            mode,
            "strict" if strict else "lenient",
        ],
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        env=environment(**variables),
        cwd=program.parent,
        timeout=PATIENCE,
        check=False,
    )
