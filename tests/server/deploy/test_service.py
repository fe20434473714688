"""The unit of systemd and the container file, as far as they can be tried without either.

``test_container`` builds and runs the second."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from reenact.errors import UsageError
from reenact.server.process.serve import ServeOptions, serve
from tests.cli.parsing import parse
from tests.server.deploy.guide import GUIDE, blocks, command, filled, setting, words
from tests.server.deploy.standing import unit
from tests.server.house import running


def test_systemd_knows_everything_that_the_unit_says(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("there is no systemd-analyze here")
    file = tmp_path / "reenact.service"
    file.write_text(filled(unit(), {"/opt/reenact/bin/reenact": sys.executable}), "utf-8")
    done = subprocess.run([program, "verify", str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert str(file) not in done.stderr, done.stderr


def test_the_service_keeps_its_files_to_itself() -> None:
    folder = setting(unit(), "StateDirectory")
    assert f"--data /var/lib/{folder}" in setting(unit(), "ExecStart")
    assert (setting(unit(), "StateDirectoryMode"), setting(unit(), "UMask")) == ("0700", "0077")


def image() -> str:
    return blocks("In a container")[0]


def of_image(word: str) -> list[str]:
    """The words of an instruction that has them as JSON."""
    (found,) = re.findall(rf"^{word} (?:CMD )?(\[.*\])$", image(), re.MULTILINE)
    words_: list[str] = json.loads(found)
    return words_


def test_the_container_starts_what_there_is() -> None:
    program, *arguments = of_image("ENTRYPOINT")
    args = parse(arguments)
    assert program == "reenact"
    assert (args.host, args.data, args.insecure) == ("0.0.0.0", "/data", True)
    assert f"EXPOSE {args.port}\n" in image()
    assert "\nVOLUME /data\n" in image()


def test_what_is_said_behind_the_name_of_the_image_is_added() -> None:
    said = words(command("In a container", "docker run"))
    behind = said[len(said) - said[::-1].index("reenact") :]
    args = parse([*of_image("ENTRYPOINT")[1:], *behind])
    assert (args.name, args.host) == ("reenact.example.com", "0.0.0.0")
    shared = ("--host", "127.0.0.1", "--forwarded")
    assert f"`{' '.join(shared)}`" in GUIDE.read_text("utf-8")
    args = parse([*of_image("ENTRYPOINT")[1:], *shared])
    assert (args.host, args.forwarded, args.data) == ("127.0.0.1", True, "/data")


def test_without_saying_that_its_network_is_trusted_it_would_not_start(tmp_path: Path) -> None:
    args = parse([one for one in of_image("ENTRYPOINT")[1:] if one != "--insecure"])
    with pytest.raises(UsageError, match="plain HTTP"):
        serve(ServeOptions(host=args.host, port=0, data=tmp_path))


def test_the_container_is_healthy_as_long_as_the_server_is(tmp_path: Path) -> None:
    program, *arguments = of_image("HEALTHCHECK")
    assert program == "python"
    with running(tmp_path / "data") as house:
        here = filled(" ".join(arguments[1:]), {"http://127.0.0.1:8321": house.url})
        check = [sys.executable, arguments[0], here]
        assert subprocess.run(check, capture_output=True).returncode == 0
        nowhere = {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
        proxied = subprocess.run(check, capture_output=True, env={**os.environ, **nowhere})
        assert proxied.returncode == 0, "it asked the proxy that Docker told the container of"
        assert httpx.get(f"{house.url}/readyz", trust_env=False).status_code == 200
    assert subprocess.run(check, capture_output=True).returncode != 0


def test_what_the_container_installs_are_extras_that_there_are() -> None:
    (extras,) = re.findall(r"'reenact\[(.*)\]'", image())
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8")
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra
