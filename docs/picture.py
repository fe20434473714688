"""Draw docs/picture.svg, the picture in the README, from a real run of the real command.

Not part of `make docs`: the times in it differ with every run. Run it when the output changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

DEMO = Path(__file__).resolve().parent.parent / "demo"
sys.path.insert(0, str(DEMO))

from world import World  # noqa: E402 - the demo is no package

WIDTH, LEADING, MARGIN = 980, 20, 24
KEY = "sk-" + "proj-" + "a8f3K2m9" * 4


def shell(folder: Path, command: str, server: str) -> list[str]:
    """The command as a person types it, and what it prints: the report alone of a divergence."""
    here = Path(sys.executable).parent
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            "COLUMNS": "104",
            "MODEL_API_KEY": KEY,
            "MODEL_SERVER": server,
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "REENACT_CONFIG_DIR": str(folder / "config"),
        },
    )
    printed = done.stdout.replace(f"{folder}{os.sep}", "").splitlines()
    if "reenact.DivergenceError" in printed:
        printed = printed[printed.index("reenact.DivergenceError") + 1 :]
    return [f"$ {command}", *printed, ""]


def draw(lines: list[str]) -> str:
    """The lines as a terminal, in SVG."""
    height = MARGIN * 2 + LEADING * len(lines)
    rows = []
    for number, line in enumerate(lines):
        y = MARGIN + LEADING * number + 14
        rows.append(f'<text x="{MARGIN}" y="{y}" fill="{_colour(line)}">{escape(line)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" '
            'aria-label="an agent is recorded, shown, re-enacted, and asked something else">',
            f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#0d1117"/>',
            '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" '
            'font-size="13" xml:space="preserve">',
            *rows,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _colour(line: str) -> str:
    if line.startswith(("$ ", "    + ")):
        return "#7ee787"
    if line.startswith(("divergence:", "    - ")):
        return "#ff7b72"
    return "#e6edf3"


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    shutil.copy(DEMO / "agent.py", folder)
    world = World()
    run = "reenact run --{} monday -- python agent.py 'Book a table in {} if it is warm'"
    try:
        lines = shell(folder, run.format("capture", "Bern"), world.address)
        lines += shell(folder, "reenact show monday --grep http", world.address)
        world.stop()
        lines += shell(folder, run.format("replay", "Bern") + "   # offline", world.address)
        lines += shell(folder, run.format("replay", "Rome"), world.address)
    finally:
        shutil.rmtree(folder)
    while lines and not lines[-1]:
        lines.pop()
    Path(__file__).with_name("picture.svg").write_text(draw(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
