"""Real processes for tests under fire: servers and apps that are killed with -9 and live again.

``Site`` is a deployment: its folder or database, one port for all lives of its server, the keys of an
operator and of an agent. ``ServerLives`` is its server with points to be killed at and short timings;
``Serving`` is ``reenact serve`` as people start it. ``AppLives`` is an app with its agent.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import httpx
import msgspec

from tests.clocks import monotonic
from tests.server.house import PASSWORD

PATIENCE: Final = 60.0
QUICK: Final = {
    "retry": 0.05,
    "poll": 0.1,
    "sweep": 0.1,
    "heartbeat": 5.0,
    "deliver": 300.0,
    "start": 300.0,
}
"""Timings of a server: who was cut off comes again at once, and a slow machine ends no replay."""
EAGER: Final[dict[str, Any]] = {
    "retry_first": 0.05,
    "retry_most": 0.2,
    "control_seconds": 5.0,
    "request_seconds": 10.0,
    "turn_within": 250.0,
}
"""Limits of an agent's link."""
_ROOT: Final = Path(__file__).resolve().parents[3]
T = TypeVar("T")


class Closes(Protocol):
    """What has to be closed."""

    def close(self) -> None: ...


def free_port() -> int:
    """Below those that the kernel gives out: nobody else gets it while a server is dead, not even
    a client that tries to reach it."""
    chance = random.Random()
    while True:
        port = chance.randrange(20_000, 32_000)
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def until(look: Callable[[], T], what: str = "") -> T:
    """What ``look`` gives once that is something: for what tells nobody."""
    pause, deadline = threading.Event(), monotonic() + PATIENCE
    while not (found := look()):
        assert monotonic() < deadline, what or f"it never came: {found!r}"
        pause.wait(0.02)
    return found


class Lives:
    """A program of ``lives.py``, and what it tells. Close it."""

    def __init__(self, module: str) -> None:
        self._news = threading.Condition()
        self.told: list[dict[str, Any]] = []
        self._seen = 0
        self.pid = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.told.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self.told.append({"gone": True})
            self._news.notify_all()

    def say(self, **orders: Any) -> None:
        """One line to whoever lives."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(orders) + "\n")
        self._process.stdin.flush()

    def hear(self, *names: str) -> dict[str, Any]:
        """The next that it tells with one of these in it; what comes before is passed over."""
        with self._news:
            while True:
                for number in range(self._seen, len(self.told)):
                    if any(name in self.told[number] for name in (*names, "gone")):
                        self._seen = number + 1
                        assert "gone" not in self.told[number], names
                        return self.told[number]
                assert self._news.wait(PATIENCE), (names, self.told[self._seen :])

    def all(self, name: str) -> list[Any]:
        """Everything that it has told under this name."""
        with self._news:
            return [one[name] for one in self.told if name in one]

    def begin(self, **orders: Any) -> dict[str, Any]:
        """Another life, once it is ready. Fails when it ends before that."""
        self.say(**orders)
        ready = self.hear("ready", "ended")
        assert "ready" in ready, ready
        self.pid = ready["ready"]
        return ready

    def kill(self) -> None:
        """With -9, if nothing else was quicker."""
        self._end()
        assert self.ended() == -signal.SIGKILL

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def has_ended(self) -> bool:
        """Has this life ended, and has :meth:`ended` not been asked yet?"""
        with self._news:
            return any("ended" in one for one in self.told[self._seen :])

    def ended(self) -> int:
        """How this life ended, once it has."""
        code: int = self.hear("ended")["ended"]
        self.pid = 0
        return code

    def close(self) -> None:
        if self.pid:
            self._end()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._reader.join()
        self._process.stdout.close()


class Keys(msgspec.Struct, frozen=True):
    """``operator`` may do everything, ``agent`` is for the app ``shop`` in ``staging``."""

    operator: str
    agent: str


class Site:
    """A deployment in ``folder``; ``database`` is the address of a PostgreSQL one, or empty."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.data = folder / "data"
        self.database = database
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def furnish(self, token: str, url: str = "") -> Keys:
        """The first account, the environment, and keys: as people make them."""
        with httpx.Client(base_url=url or self.url, trust_env=False, timeout=PATIENCE) as client:
            account = {"email": "ada@example.com", "password": PASSWORD}
            made = client.post("/api/v1/setup", json={**account, "token": token})
            assert made.status_code == 201, made.text
            signed = client.post("/api/v1/session", json=account)
            client.headers["X-CSRF-Token"] = signed.json()["csrfToken"]
            kind = {"kind": "non-production"}
            assert client.put("/api/v1/environments/staging", json=kind).status_code < 300
            own = client.post("/api/v1/keys/own", json={"name": "operator"})
            agent = {"kind": "agent", "name": "shop", "app": "shop", "environment": "staging"}
            return Keys(own.json()["key"], client.post("/api/v1/keys", json=agent).json()["key"])


class ServerLives(Lives):
    """The server of ``site``, in one life after the other."""

    def __init__(self, site: Site, port: int = 0) -> None:
        super().__init__("tests.server.fire.server_lives")
        self.site = site
        self.port = port or site.port
        self.url = f"http://127.0.0.1:{self.port}"

    def serve(
        self,
        *,
        begin: str = "",
        kill_at: int = 0,
        timings: dict[str, float] = QUICK,
        **limits: int,
    ) -> str:
        """Start it; gives the token of the set-up link. It is killed at the point with the number
        ``kill_at``, counted from the first POST whose path ends with ``begin``, or (``*``) from the start."""
        ready = self.begin(
            data=str(self.site.data),
            database=self.site.database,
            port=self.port,
            begin=begin,
            kill_at=kill_at,
            timings={**timings},
            limits={"replays_per_minute": 1_000_000, **limits},
        )
        token: str = ready["token"]
        return token


class AppLives(Lives):
    """An app whose agent is at ``url``. ``folder`` is its own."""

    def __init__(self, folder: Path, url: str, key: str) -> None:
        super().__init__("tests.server.fire.app_lives")
        self._folder = folder
        self._marks = folder / "marks"
        self._url = url
        self._key = key

    def start(self, **limits: float) -> None:
        """Another life of the app, which has begun to connect."""
        self._folder.mkdir(exist_ok=True)
        self.begin(
            url=self._url,
            key=self._key,
            data=str(self._folder / "agent"),
            marks=str(self._marks),
            limits={**EAGER, **limits},
        )

    def order(self, run: str) -> None:
        """An exchange of its own."""
        self.say(order=run)
        assert self.hear("answered")["answered"] == {"total": 10}

    def status(self) -> dict[str, Any]:
        self.say(status=True)
        return self.hear("state")

    def is_connected(self) -> bool:
        return bool(self.status()["state"] == "connected")

    def stop(self) -> None:
        """As an app that ends in order."""
        self.say(end=True)
        assert self.ended() == 0

    def ran(self) -> Counter[str]:
        """What its route was run for, and how often: ``replay r1``, ``order o1``."""
        if not self._marks.exists():
            return Counter()
        return Counter(self._marks.read_text(encoding="utf-8").splitlines())


class Serving:
    """``reenact serve`` on ``site``, as people start it: a process of its own. Close it."""

    program: tuple[str, ...] = (sys.executable, "-m", "reenact")

    def __init__(self, site: Site, port: int = 0, *more: str) -> None:
        self.site = site
        self.port = port or site.port
        self.url = f"http://127.0.0.1:{self.port}"
        self._more = more
        self.said: list[str] = []
        self.start()

    def start(self) -> None:
        """Once it serves."""
        where = ["--port", str(self.port), "--data", str(self.site.data), "--name", "test.example"]
        database = ["--database", self.site.database] if self.site.database else []
        self.process = subprocess.Popen(
            [*self.program, "serve", *where, *database, *self._more],
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self.said = []
        self._serves = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._serves.wait(PATIENCE)
        assert self.process.poll() is None, self.said

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if " at http://" in line:
                self._serves.set()
        self._serves.set()

    def token(self) -> str:
        """That of the link which the first start prints."""
        found = until(lambda: re.search(r"/setup\?token=(\w+)", "".join(self.said)))
        return found[1] if found else ""

    def kill(self) -> None:
        """With -9. :meth:`start` begins it again, on the same port."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def close(self) -> None:
        if self.process.stderr is not None and not self.process.stderr.closed:
            self.kill()


@contextmanager
def closing(*lives: Closes) -> Iterator[None]:
    """Closed when the block ends, the last one first."""
    try:
        yield
    finally:
        for one in reversed(lives):
            one.close()
