"""A regression whose server, ``reenact serve`` in a process of its own, is killed in the middle of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reenact.cli._client import Login, save_login
from tests.cli.conftest import Run
from tests.cli.remote import AGENT, record
from tests.server.fire.running import Serving, Site, closing

KILLS = """
import os
import signal
import socket
import threading
from agentry import agent

wanted, done = threading.Lock(), threading.Event()
wanted.acquire()

def kill():  # in no replay, and a lock that a replay releases makes it act for none
    wanted.acquire()
    with open("server") as file:
        pid, port = map(int, file.read().split())
    os.kill(pid, signal.SIGKILL)
    try:
        while True:
            socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        done.set()

threading.Thread(target=kill, daemon=True).start()

def kills(question):
    if question == "q1":
        wanted.release()
        done.wait()
    return agent(question)
"""
WORDS = ("regress", "--from-server", "--target", "killing:kills", "-q", "--journal", "j.jsonl")


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serving:
    """A server that has nothing yet, and a folder with the program."""
    (tmp_path / "agentry.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "killing.py").write_text(KILLS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REENACT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REENACT_CONFIG_DIR", str(tmp_path / "config"))
    return Serving(Site(tmp_path))


def test_what_was_not_got_is_got_when_it_is_there_again(
    serving: Serving, run: Run, tmp_path: Path
) -> None:
    with closing(serving):
        key = serving.site.furnish(serving.token()).operator
        save_login(Login("reenact-login/1", serving.url, key), os.environ)
        for number in range(4):
            assert run("push", record(tmp_path / f"runs/{number}", number)).code == 0
        (tmp_path / "server").write_text(f"{serving.process.pid} {serving.port}")
        ran = run(*WORDS, "-j", 1)
        assert ran.code == 3, ran.err
        assert ran.err == "reenact: 4 recordings: 3 ok, 1 unreadable\n"
        assert ran.out.startswith("1 recording unreadable: ServerUnusable\n")
        assert key not in ran.out + (tmp_path / "j.jsonl").read_text(encoding="utf-8")
        assert run(*WORDS, "--resume").code == 3, "not even a list can be had"
        serving.kill()
        serving.start()
        ran = run(*WORDS, "--resume", "--json")
        assert ran.code == 0, ran.out
        assert ran.json()["run"]["resumed"] == 3
        assert ran.json()["counts"]["ok"] == 4
