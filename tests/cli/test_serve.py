"""``reenact serve`` in a process of its own: from an empty folder to a first account and back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run, command
from tests.server.house import PASSWORD

EMAIL = "ann@acme.example"


def test_an_empty_folder_a_server_a_first_account(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_CONFIG_DIR", str(tmp_path / "config"))
    words = command("serve", "--port", "0", "--data", tmp_path / "data")
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            assert process.stderr is not None
            said = [process.stderr.readline() for _ in range(4)]
            (link,) = re.findall(r"'(http://127\.0\.0\.1:\d+/setup\?token=\w+)'", "".join(said))
            done = subprocess.run(
                command("login", link, "--email", EMAIL, "--password-stdin"),
                input=f"{PASSWORD}\n",
                capture_output=True,
                encoding="utf-8",
                env={**os.environ},
                timeout=60,
            )
            assert (done.returncode, done.stderr) == (0, "")
            (user,) = run("user", "ls", "--json").json_lines()
            assert user["email"] == EMAIL
            assert run("audit", "verify").code == 0
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def test_other_machines_are_not_let_in_over_plain_http(run: Run, tmp_path: Path) -> None:
    ran = run("serve", "--host", "192.0.2.1", "--data", tmp_path / "data")
    assert ran.code == 2
    assert "--insecure" in ran.hint
    assert not (tmp_path / "data").exists()


def test_what_is_not_installed_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "reenact.server.process.serve", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ran = run("serve", "--data", tmp_path / "data")
    assert (ran.code, ran.hint) == (2, "pip install 'reenact[server]'")
