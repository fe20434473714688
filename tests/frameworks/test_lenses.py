"""What the lenses read is what the SDKs themselves make of the same bytes."""

from __future__ import annotations

import subprocess

import pytest

from tests.frameworks.environments import ROOT, build
from tests.frameworks.servers import Aimock, available
from tests.frameworks.trying import PROGRAMS
from tests.integration.running import PATIENCE

pytestmark = pytest.mark.slow


def _check(*words: str) -> tuple[int, str]:
    with available():
        python = build("httpx2")
    done = subprocess.run(
        [python, PROGRAMS / "lens_check.py", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env={"PATH": "", "LANG": "C.UTF-8", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout


def test_sdks_and_lenses_agree() -> None:
    code, said = _check()
    assert code == 0, said


def test_sdks_and_lenses_agree_about_a_server_that_nobody_here_wrote(aimock: Aimock) -> None:
    code, said = _check("--from", aimock.address)
    assert code == 0, said
    assert aimock.journal() != []
