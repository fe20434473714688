"""A server as its unit starts it, and nginx before it: processes of their own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.relays import certificate
from tests.server.deploy.guide import blocks, filled, setting, words

NAME = "reenact.example.com"
_IN_CI = bool(os.environ.get("CI"))  # while tests run it is not there any more


class Served:
    """``url`` is where it listens, ``token`` that of the link for the first account, if it is
    ``new``."""

    def __init__(self, process: subprocess.Popen[str], new: bool = True) -> None:
        assert process.stderr is not None
        self._stderr = process.stderr
        self.said: list[str] = []
        self.url = self._read(r" at (http://\S+)")
        self.token = self._read(r"/setup\?token=(\w+)") if new else ""
        self._rest = threading.Thread(target=self._drain)
        self._rest.start()

    def _read(self, wanted: str) -> str:
        for line in self._stderr:
            self.said.append(line)
            found = re.search(wanted, line)
            if found:
                return found[1]
        raise AssertionError("".join(self.said))

    def _drain(self) -> None:
        self.said += list(self._stderr)

    def close(self) -> None:
        self._rest.join()


def unit() -> str:
    return blocks("As a service")[0]


@contextmanager
def serving(data: Path) -> Iterator[Served]:
    """What the unit starts, on another folder and a free port."""
    started = words(filled(setting(unit(), "ExecStart"), {"/var/lib/reenact": str(data)}))
    assert started[0].endswith("/reenact")
    with subprocess.Popen(
        [sys.executable, "-m", "reenact", *started[1:], "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "CI": ""},
    ) as process:
        served = Served(process)
        try:
            yield served
        finally:
            process.terminate()
            process.wait(60)
            served.close()


def find_program(name: str, package: str) -> str:
    """Skips the test where there is none, and fails it in CI."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which(name, path=path)
    if found is None:
        why = f"there is no {name} here: on Debian, apt-get install {package}"
        if _IN_CI:
            pytest.fail(why)
        pytest.skip(why)
    return found


_AROUND = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr error;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
{}
}}
"""


class Proxy:
    """nginx with the guide's block. ``trusted`` is the file that vouches for it."""

    def __init__(self, url: str, trusted: Path) -> None:
        self.url = url
        self.trusted = trusted


@contextmanager
def before(server: Served, folder: Path) -> Iterator[Proxy]:
    nginx = find_program("nginx", "nginx-light")
    folder.mkdir()
    pem = certificate(folder)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    block = filled(
        blocks("Behind a proxy")[0],
        {
            "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
            "/etc/ssl/reenact.pem": str(pem),
            "/etc/ssl/reenact.key": str(pem),
            "http://127.0.0.1:8321": server.url,
        },
    )
    (folder / "nginx.conf").write_text(_AROUND.format(block), "utf-8")
    with subprocess.Popen(
        [nginx, "-p", str(folder), "-e", "stderr", "-c", "nginx.conf"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            listening(process, port)
            yield Proxy(f"https://127.0.0.1:{port}", pem)
        finally:
            process.terminate()
            assert process.stderr is not None
            said = process.stderr.read().decode()
            process.wait(60)
    assert "[" not in said, said  # errors have their level in brackets


def listening(process: subprocess.Popen[bytes], port: int) -> None:
    """It does not say when it listens."""
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        except ConnectionRefusedError:
            continue
        return
    assert process.stderr is not None
    raise AssertionError(process.stderr.read().decode())
