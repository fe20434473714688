"""The container file of the guide, built and run by Buildah: as root, and only in `make soak`.

No image is fetched. What the file is built from is called as the real one, and has the programs of
this machine in it: Python in a place of its own, in which `pip` finds our wheel and those that it needs.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.conftest import ROOT, SOAK
from tests.server.deploy.guide import blocks
from tests.server.deploy.standing import Served, find_program
from tests.server.house import PASSWORD

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not SOAK, reason="builds an image, which takes a minute: make soak"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a container without root needs more set up"),
]
BASE = "python:3.13-slim"
WHEELS = "/wheels"


class Engine:
    """Buildah with images of its own in ``folder``. The programs of this machine are in every container
    of it, where they cannot be changed."""

    def __init__(self, folder: Path) -> None:
        self._program = find_program("buildah", "buildah")
        find_program("runc", "runc")
        self.folder = folder
        self.seen = [f"{one}:{one}:ro" for one in dict.fromkeys(("/usr", sys.base_prefix))]
        self.seen.append(f"{folder / 'wheels'}:{WHEELS}:ro")

    def words(self, *words: str) -> list[str]:
        places = ("--root", str(self.folder / "images"), "--runroot", str(self.folder / "run"))
        return [self._program, *places, "--storage-driver", "vfs", *words]

    def mounts(self, *more: str) -> list[str]:
        return [word for one in (*self.seen, *more) for word in ("-v", one)]

    def do(self, *words: str) -> str:
        done = subprocess.run(self.words(*words), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def fill(place: Path) -> None:
    """What a machine has besides its programs."""
    for name in ("etc", "tmp", "var", "proc", "sys", "dev"):
        (place / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (place / name).symlink_to(f"usr/{name}")
    for name in ("passwd", "group"):
        (place / "etc" / name).write_text(
            "root:x:0:0::/:/bin/sh\n" if name == "passwd" else "root:x:0:\n", "utf-8"
        )
    for name in ("login.defs", "ld.so.cache"):
        shutil.copy(f"/etc/{name}", place / "etc" / name)
    (place / "etc/pip.conf").write_text(
        f"[global]\nno-index = true\nfind-links = {WHEELS}\n", "utf-8"
    )


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """With the image that the file begins with."""
    engine = Engine(tmp_path)
    shutil.copytree(ROOT / ".cache" / "wheels", tmp_path / "wheels")
    ours = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", str(ROOT)]
    subprocess.run([sys.executable, *ours, "-w", str(tmp_path / "wheels")], check=True)
    fill(tmp_path / "machine")
    made = engine.do("from", "scratch")
    engine.do("copy", made, str(tmp_path / "machine"), "/")
    engine.do("config", "--env", "PATH=/python/bin:/usr/sbin:/usr/bin:/sbin:/bin", made)
    python = Path(sysconfig.get_config_var("BINDIR")) / "python3"
    venv = ("--", str(python), "-m", "venv", "/python")
    engine.do("run", "--isolation", "chroot", *engine.mounts(), made, *venv)
    engine.do("commit", "--rm", made, BASE)
    return engine


class Image(msgspec.Struct, rename="pascal"):
    """What was kept of the file's instructions."""

    user: str
    entrypoint: list[str]
    healthcheck: dict[str, list[str]]
    volumes: dict[str, dict[str, str]]


def build(engine: Engine) -> Image:
    file = engine.folder / "Containerfile"
    text = blocks("In a container")[0]
    assert text.startswith(f"FROM {BASE}\n")
    file.write_text(text, "utf-8")
    built = ("--isolation", "chroot", "--pull-never", "--format", "docker", "-t", "reenact")
    engine.do("bud", *built, *engine.mounts(), "-f", str(file), str(engine.folder / "machine"))
    shown = msgspec.json.decode(engine.do("inspect", "--type", "image", "reenact"))
    return msgspec.convert(shown["Docker"]["config"], Image)


class Container(Served):
    """A server that is the first process of a container, without a network."""

    def __init__(self, process: subprocess.Popen[str], data: Path, new: bool) -> None:
        super().__init__(process, new)
        self.pid = first_in(data)
        assert self.pid, "it is in no container"

    def do(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Something else in it, as its user."""
        inside = ["nsenter", "-t", str(self.pid), "-n", "-p", "-m", "-r", "-w", "-S", "10001"]
        env = ("env", "-i", "HOME=/data", "PATH=/python/bin:/usr/bin", *map("=".join, more.items()))
        return subprocess.run(
            [*inside, *env, *words], input=PASSWORD, capture_output=True, text=True
        )


def first_in(data: Path) -> int:
    """The first process of the container that has ``data`` as its volume; 0 if there is none."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            first = re.search(r"^NSpid:\t\d+\t1$", status.read_text("utf-8"), re.MULTILINE)
            if first and (status.parent / "root/data").samefile(data):
                return int(status.parent.name)
        except OSError:  # another that has ended meanwhile, or has no such folder
            continue
    return 0


@contextmanager
def started(engine: Engine, image: Image, data: Path, new: bool = True) -> Iterator[Container]:
    made = engine.do("from", "--pull-never", "reenact")
    engine.do("config", "--volume", "/data-", made)  # Buildah may prefer one of its own to ours
    how = ("--isolation", "oci", "--runtime", "runc", "--network", "none")
    words = engine.words("run", *how, *engine.mounts(f"{data}:/data:rw"), made, "--")
    with subprocess.Popen(
        [*words, *image.entrypoint], stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            container = Container(process, data, new)
            yield container
            os.kill(container.pid, signal.SIGTERM)
            assert process.wait(60) == 0, "".join(container.said)
            container.close()
        finally:
            left = first_in(data)
            if left:
                os.kill(left, signal.SIGKILL)


def test_the_container_file_makes_a_server_that_starts_stops_and_keeps_what_it_has(
    engine: Engine,
) -> None:
    image = build(engine)
    assert (image.user, list(image.volumes)) == ("10001", ["/data"])
    check = image.healthcheck["Test"]
    assert check[0] == "CMD"
    data = engine.folder / "data"
    data.mkdir()
    os.chown(data, 10001, 10001)
    with started(engine, image, data) as container:
        assert container.do(*check[1:]).returncode == 0
        assert container.do(*check[1:], http_proxy="http://127.0.0.1:9").returncode == 0
        link = f"http://127.0.0.1:8321/setup?token={container.token}"
        asked = ("--email", "ada@example.com", "--password-stdin")
        done = container.do("reenact", "login", link, *asked)
        assert done.returncode == 0, done.stderr
    assert not (data / "reenact.db-wal").exists()
    assert {one.stat().st_uid for one in data.rglob("*")} == {10001}
    with started(engine, image, data, new=False) as container:
        assert "ada@example.com" in container.do("reenact", "user", "ls").stdout
