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

WIDTH, LEADING, MARGIN = 980, 20, 24
KEY = "sk-" + "proj-" + "a8f3K2m9" * 4

AGENT = """
import os, sys
import reenact

@reenact.boundary(capability="llm.call", operation="gpt-5")
def ask(messages):
    if messages[-1]["role"] == "tool":
        return {"role": "assistant", "content": "Yes, 21 degrees."}
    return {"role": "assistant", "tool": "weather"}

@reenact.boundary(capability="tool.call")
def weather(city):
    return fetch(city, os.environ["WEATHER_API_KEY"])

@reenact.boundary
def fetch(city, api_key):
    return {"celsius": 21.0}

mode, question = sys.argv[1:]
with reenact.session(capture="run", mode=mode, redaction="default", seal=False, strict=True):
    messages = [{"role": "user", "content": question}]
    while "tool" in (answer := ask(messages)):
        messages += [answer, {"role": "tool", "content": weather("Bern")}]
    print(answer["content"])
"""


def shell(folder: Path, command: str) -> list[str]:
    """The command as a person types it, and what it prints."""
    here = Path(sys.executable).parent
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            "COLUMNS": "104",
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "REENACT_CONFIG_DIR": str(folder / "config"),
            "WEATHER_API_KEY": KEY,
        },
    )
    printed = done.stdout.splitlines()
    if printed and printed[0].startswith("Traceback"):
        printed = _report(printed)
    return [f"$ {command}", *printed, ""]


def _report(printed: list[str]) -> list[str]:
    """Of an uncaught divergence its report alone, without the way the exception came."""
    name = "reenact.errors.DivergenceError: "
    start = next(number for number, line in enumerate(printed) if line.startswith(name))
    return [printed[start].removeprefix(name), *printed[start + 1 :]]


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
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    try:
        lines = shell(folder, "python agent.py record 'Is it warm in Bern?'")
        lines += shell(folder, "reenact show run")
        lines += shell(folder, "python agent.py replay 'Is it warm in Bern?'   # offline")
        lines += shell(folder, "python agent.py replay 'Is it warm in Rome?'")
    finally:
        shutil.rmtree(folder)
    while lines and not lines[-1]:
        lines.pop()
    Path(__file__).with_name("picture.svg").write_text(draw(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
