"""Whole programs under ``reenact run``: a server, a folder for programs, and what came of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import IO, Any

import pytest

import reenact
from reenact.format.event import Event
from tests.conftest import SOAK
from tests.contract.endpoints import ENDPOINTS
from tests.contract.server import Exchange, Handler, Server

__all__ = ["PATIENCE", "SERVES", "Ran", "Started", "Theatre", "joined", "reenact_command"]

PATIENCE = 120
"""Seconds after which a test gives up on a process. No verdict depends on it."""


def _turn(exchange: Exchange) -> None:
    """``/turn?of=6&n=0``: when all six are there, the last one is answered first, and each other
    one when somebody has asked for ``/next``."""
    of, number = int(exchange.query("of")), int(exchange.query("n"))
    here = exchange.act.notes.setdefault("here", [])
    nexts = exchange.act.notes.setdefault("next", [])

    def is_our_turn() -> bool:
        return len(here) == of and len(nexts) >= of - 1 - number

    exchange.gate.until(is_our_turn, lambda: here.append(number))
    exchange.answer("200 OK", str(number).encode())


def _next(exchange: Exchange) -> None:
    nexts = exchange.act.notes.setdefault("next", [])
    exchange.gate.until(lambda: True, lambda: nexts.append(exchange.number))
    exchange.answer("200 OK", b"")


SERVES: dict[str, Handler] = {**ENDPOINTS, "/turn": _turn, "/next": _next}
"""What the server can do: what the contract's can, and the above."""

_OURS = ("reenact: recorded ", "reenact: replayed ")

ASK = """
    import os
    from urllib.request import Request, urlopen

    def ask(path, body=None):
        data = None if body is None else body.encode()
        kind = {"Content-Type": "application/json"}
        with urlopen(Request(os.environ["SERVER"] + path, data, kind)) as answer:
            return answer.read().decode()
"""
"""The module ``ask``, which every program can import: a client that loads quickly."""


def joined(bodies: Mapping[str, str], count: int, alone: Collection[str] = ()) -> list[Any]:
    """Parameters that have ``count`` bodies of programs each, to be run one after the other in one
    process, and one each for those that have to be ``alone``. In ``make soak`` all are alone."""
    names, size = sorted(set(bodies) - set(alone)), 1 if SOAK else count
    parts = [names[start : start + size] for start in range(0, len(names), size)]
    parts += [[name] for name in alone]
    marks = pytest.mark.soak
    return [
        pytest.param([bodies[name] for name in part], id="-".join(part), marks=marks)
        for part in parts
    ]


def reenact_command(*words: str | Path) -> list[str]:
    """The command line of ``reenact``, in a process of its own."""
    return [sys.executable, "-m", "reenact", *map(str, words)]


@dataclass(frozen=True)
class Ran:
    """What became of a run."""

    code: int
    out: bytes
    err: str

    @property
    def summary(self) -> str:
        """The one line at the end, without our name."""
        (line,) = [line for line in self.err.splitlines() if line.startswith(_OURS)]
        return line.removeprefix("reenact: ")

    @property
    def own(self) -> tuple[int, bytes, str]:
        """What the program itself gave: exit code, output, errors."""
        lines = self.err.splitlines(keepends=True)
        ours = (*_OURS, "reenact: note: ")
        return self.code, self.out, "".join(one for one in lines if not one.startswith(ours))


@dataclass(frozen=True)
class Started:
    """A run that goes on. Its program says on its standard output how far it is."""

    process: subprocess.Popen[bytes]

    def wait_for(self, word: str) -> str:
        """Read lines until one begins with ``word``; the rest of it."""
        while line := self._out.readline().decode():
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"ended before {word!r}: {self.end()}")

    def signal(self, number: int) -> None:
        """To ``reenact run`` itself, and nobody else."""
        os.kill(self.process.pid, number)

    def signal_all(self, number: int) -> None:
        """To every process of the run, as a terminal does."""
        os.killpg(self.process.pid, number)

    def end(self) -> Ran:
        """Wait for it."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return Ran(self.process.returncode, out, (err or b"").decode())

    @property
    def _out(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout


class Theatre:
    """``server`` answers while a program is recorded; ``folder`` holds programs and recordings."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.write("ask.py", ASK)

    def write(self, name: str, text: str) -> Path:
        """A file in the folder."""
        place = self.folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(dedent(text), encoding="utf-8")
        return place

    def environ(self, **more: str) -> dict[str, str]:
        """The environment of a run: ``SERVER`` is the address, a value of ``""`` is taken out.

        Bytecode is kept: else each process compiles all of Reenact, which takes longer than all
        the rest."""
        kept = {"PYTHONDONTWRITEBYTECODE": "", "SERVER": self.server.url}
        found = {**os.environ, **kept, **more}
        return {name: value for name, value in found.items() if value != ""}

    def run(self, *words: str | Path, told: bytes = b"", **environ: str) -> Ran:
        """``reenact run`` with these words; ``told`` is what it finds on its standard input."""
        done = subprocess.run(
            reenact_command("run", *words),
            input=told,
            capture_output=True,
            cwd=self.folder,
            env=self.environ(**environ),
            timeout=PATIENCE,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr.decode())

    @contextmanager
    def started(self, *words: str | Path, **environ: str) -> Iterator[Started]:
        """The same, without waiting for its end. Leads a process group of its own."""
        process = subprocess.Popen(
            reenact_command("run", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.folder,
            env=self.environ(**environ),
            start_new_session=True,
        )
        with process:
            try:
                yield Started(process)
            finally:
                process.kill()

    def record(self, *command: str | Path, name: str = "c", **given: Any) -> Ran:
        """Run ``command`` (a program, if it is one word) and capture it."""
        return self.run("--capture", name, "--", *_python(command), **given)

    def replay(self, *command: str | Path, name: str = "c", **given: Any) -> Ran:
        """Re-enact it; nobody comes to the server."""
        connections = self.server.connections
        ran = self.run("--replay", name, "--", *_python(command), **given)
        assert self.server.connections == connections, "the replay went to the server"
        return ran

    def check(self, *command: str | Path, **given: Any) -> Ran:
        """Record and replay ``command``: the two must do the same. What the recorded run gave."""
        recorded = self.record(*command, **given)
        replayed = self.replay(*command, **given)
        assert replayed.own == recorded.own, f"{recorded}\n{replayed}"
        assert ", 0 live, 0 unused" in replayed.summary, replayed.summary
        return recorded

    def calls(self, name: str = "c") -> list[Event]:
        """What was recorded of the network."""
        with reenact.open_recording(self.folder / name) as source:
            return [event for event in source if event.data.get("source") == "network"]

    def asked(self, name: str = "c") -> list[tuple[str, str]]:
        """In which lane each recorded request was made, and its path."""
        root = self.server.url
        return sorted(
            (event.lane, event.data["request"]["url"].removeprefix(root))
            for event in self.calls(name)
        )

    def report(self, name: str) -> Any:
        """What ``--report`` has written."""
        return json.loads((self.folder / name).read_text("utf-8"))


def _python(command: Sequence[str | Path]) -> list[str]:
    words = [str(word) for word in command]
    return [sys.executable, *words] if words[0].endswith(".py") else words
