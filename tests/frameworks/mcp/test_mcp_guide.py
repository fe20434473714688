"""The program of the guide does what the guide says."""

from __future__ import annotations

import pytest

from tests.frameworks.environments import ROOT
from tests.frameworks.mcp.staging import Stage
from tests.meta.markdown import blocks

pytestmark = pytest.mark.slow


def test_the_program_of_the_guide(stage: Stage) -> None:
    (program,) = [
        block.text
        for block in blocks(ROOT / "docs" / "guides" / "mcp.md")
        if block.language == "python"
    ]
    stage.write("guide", program)
    server = stage.folder / "server.py"
    text = server.read_text("utf-8")  # its environment names no journal
    server.write_text(text.replace('os.environ["JOURNAL"]', f"{str(stage.folder / 'journal')!r}"))
    assert stage.check("guide").out == b'{\n  "total": 3\n}\n'
