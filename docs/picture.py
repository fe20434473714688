"""Draw docs/picture.svg, the picture in the README, from a real run of the real command.

Not part of `make docs`: the times in it differ with every run. Run it when the output changes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

import reenact

WIDTH, LEADING, MARGIN = 980, 20, 24


def record(folder: Path) -> None:
    """A small agent run: two questions to a model, one tool, one answer."""
    key = "sk-" + "proj-" + "a8f3K2m9" * 4
    messages = [{"role": "user", "content": "Is it warm in Bern?"}]
    with reenact.start_recording(folder / "run", redaction="default", seal=False) as recording:
        recording.add(reenact.RunStart(input="Is it warm in Bern?", argv=["agent.py"]))
        for turn in range(2):
            recording.add(
                reenact.LlmRequest(
                    provider="openai",
                    model="gpt-5",
                    input_hash=reenact.digest(turn),
                    extra={"messages": messages * (1 + 2 * turn)},
                )
            )
            recording.add(
                reenact.LlmResponse(
                    provider="openai",
                    model="gpt-5",
                    stop_reason=("tool_calls", "stop")[turn],
                    usage=None,
                )
            )
            if turn == 0:
                call = recording.add(
                    reenact.ToolCall(
                        name="weather", args={"city": "Bern", "key": key}, call_id="call_1"
                    )
                )
                recording.add(
                    reenact.ToolResult(call_id="call_1", ok=True, result={"celsius": 21.0}),
                    lane="0.1",
                    parent=call,
                )
        recording.add(reenact.RunEnd(status="ok", output="Yes, 21 degrees."))


def run(folder: Path, *words: str) -> list[str]:
    """The command as a person types it, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "reenact", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"COLUMNS": "96", "PYTHONUNBUFFERED": "1"},
    )
    return [f"$ reenact {' '.join(words)}", *done.stdout.splitlines(), ""]


def damage(folder: Path) -> list[str]:
    """Change one character of the recorded answer."""
    events = folder / "run" / "events.jsonl"
    text = events.read_text(encoding="utf-8")
    events.write_text(text.replace("21.0", "31.0", 1), encoding="utf-8")
    return ["$ sed -i 's/21.0/31.0/' run/events.jsonl", ""]


def draw(lines: list[str]) -> str:
    """The lines as a terminal, in SVG."""
    height = MARGIN * 2 + LEADING * len(lines)
    rows = []
    for number, line in enumerate(lines):
        colour = "#7ee787" if line.startswith("$ ") else "#e6edf3"
        if "error:" in line or "damaged" in line:
            colour = "#ff7b72"
        y = MARGIN + LEADING * number + 14
        rows.append(f'<text x="{MARGIN}" y="{y}" fill="{colour}">{escape(line)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" '
            'aria-label="reenact show, a changed byte, and reenact verify naming the line">',
            f'<rect width="{WIDTH}" height="{height}" rx="10" fill="#0d1117"/>',
            '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" '
            'font-size="13" xml:space="preserve">',
            *rows,
            "</g>",
            "</svg>",
            "",
        ]
    )


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        record(folder)
        lines = run(folder, "show", "run") + run(folder, "verify", "run")
        lines += damage(folder) + run(folder, "verify", "run")
    finally:
        shutil.rmtree(folder)
    while lines and not lines[-1]:
        lines.pop()
    Path(__file__).with_name("picture.svg").write_text(draw(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
