"""``reenact serve`` with an OpenID provider and a place for traces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.server.serve_process import Process

SERVE = (sys.executable, "-m", "reenact", "serve", "--port", "0", "--data")


def test_the_server_knows_its_provider(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("-".join(["between", "us"]), "utf-8")
    more = (
        "--oidc-issuer=https://login.example",
        "--oidc-client-id=reenact",
        f"--oidc-client-secret-file={secret}",
        "--oidc-tenant=default",
        "--otlp-endpoint=https://collector.example",
    )
    with subprocess.Popen(
        [*SERVE, str(tmp_path / "data"), *more], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            found = httpx.get(f"{Process(process).url}/signin", trust_env=False)
            assert "sign in with login.example" in found.text
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(
    "option, why",
    [
        ("--oidc-issuer=https://login.example", "issuer and a client id"),
        ("--oidc-tenant=acme", "issuer and a client id"),
        ("--otlp-endpoint=collector.example", "is not a valid address"),
        ("--otlp-headers-file=nothing", "no endpoint"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, option: str, why: str) -> None:
    done = subprocess.run(
        [*SERVE, str(tmp_path / "data"), option], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert why in done.stderr
    assert "hint:" in done.stderr
    assert not (tmp_path / "data").exists()
