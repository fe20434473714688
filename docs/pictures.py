"""Draw the pictures in the README and the guides, from real runs of the real command.

Terminals become SVG, pages become PNG as chromium shows them. One more is a line in TERMINALS or
PAGES; tests/meta/test_pictures.py says when a picture is missing, or shown nowhere. Those of the server's
pages are taken by a test, see tests/browser/pictures.py; `make pictures` does both. Not part of `make
docs`: times differ with every run. `python docs/pictures.py view` draws only what is named.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent
DEMO = DOCS.parent / "demo"
FOLDER = DOCS / "pictures"
sys.path.insert(0, str(DEMO))

from world import Answers, World  # noqa: E402 - the demo is no package

WIDTH, LEADING, MARGIN, COLUMNS = 980, 20, 24, 116
KEY = "sk-" + "proj-" + "a8f3K2m9" * 4
ASK = "python agent.py 'Book a table in {} if it is warm'"
TRIP = '''\
"""Four friends ask the agent at the same time."""

from threading import Thread

import agent

for day in ("today", "{}", "on Friday", "on Sunday"):
    Thread(target=agent.main, args=(f"Book a table in Bern {{day}} if it is warm",)).start()
'''


class Terminal(NamedTuple):
    """``commands`` one after the other; a line that begins with ``#`` is a change of the scene, see
    :class:`Scene`, one that begins with ``!`` is not shown. ``plain``: as a pipe has them. ``cut``: sections of a report to leave out."""

    about: str
    commands: tuple[str, ...]
    plain: bool = False
    cut: tuple[str, ...] = ()


class Page(NamedTuple):
    """``command`` writes ``page.html``. ``keys`` are pressed in it; ``closer``: the model calls are
    selected on the timeline."""

    command: str
    dark: bool = False
    keys: tuple[str, ...] = ()
    closer: bool = False
    size: tuple[int, int] = (1100, 680)


_ASIDE = ("asked", "recorded", "nearest", "flags")

TERMINALS = {
    "run": Terminal(
        "an agent is recorded, shown, re-enacted, and asked something else",
        (
            f"reenact run --capture first -- {ASK.format('Bern')}",
            "reenact show first --grep http",
            "# offline",
            f"reenact run --replay first -- {ASK.format('Bern')}   # offline",
            f"reenact run --replay first -- {ASK.format('Rome')}",
            "# online",
        ),
        plain=True,
        cut=_ASIDE,
    ),
    "show": Terminal("the events of a recorded run", ("reenact show monday",)),
    "timeline": Terminal("four lanes over time", ("reenact show trip --timeline",)),
    "search": Terminal(
        "calls found in all recordings", ("reenact search warm --type llm --in runs --limit 4",)
    ),
    "explain": Terminal(
        "why a replay diverged, and what would settle it",
        (
            "# changed",
            f"! reenact run --replay monday -- {ASK.format('Bern')}",
            "reenact explain last",
            "# unchanged",
        ),
        cut=_ASIDE,
    ),
    "diff": Terminal(
        "two runs side by side: what another model answered", ("reenact diff monday forked",)
    ),
    "regress": Terminal(
        "four recordings against changed code: one cause",
        ("# changed", "reenact regress runs", "# unchanged"),
        cut=_ASIDE,
    ),
}

PAGES = {
    "view": Page("reenact view trip -o page.html", keys=("G", "k"), closer=True, size=(1200, 740)),
    "view-dark": Page(
        "reenact view trip --report report.json -o page.html", dark=True, closer=True
    ),
    "diff-page": Page("reenact diff monday forked --html page.html"),
    "regress-page": Page("reenact regress runs -q --html page.html -- python agent.py Rome"),
}


class Paced(Answers):
    """The demo's world at the pace of a real one; it counts tokens, too."""

    def _chunk(self, text: str) -> None:
        time.sleep(0.02)
        if text.startswith("data: [DONE]"):
            usage = '{"prompt_tokens": 184, "completion_tokens": 23}'
            super()._chunk(f'data: {{"choices": [], "usage": {usage}}}\n\n')
        super()._chunk(text)

    def _say(self, value: Any) -> None:
        time.sleep(0.1)
        super()._say(value)


class Scene:
    """A folder with the agent in it, and recordings of it: ``monday``, ``forked``, ``trip`` and
    four in ``runs``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World()
        self.world.RequestHandlerClass = Paced
        self.server = self.world.address
        shutil.copy(DEMO / "agent.py", folder)

    def set_up(self) -> None:
        self.shell(f"reenact run --capture monday -- {ASK.format('Bern')}")
        self.shell(f"reenact fork monday --model large-1 --into forked -- {ASK.format('Bern')}")
        for day in ("Friday", "Monday", "Saturday", "Sunday"):
            asking = ASK.format(f"Bern on {day}")
            self.shell(f"reenact run --capture runs/{day.lower()} -- {asking}")
        self._write_trip("tomorrow")
        self.shell("reenact run --capture trip -- python trip.py")
        self._write_trip("tonight")
        self.shell("reenact run --replay trip --lenient --report report.json -- python trip.py")

    def _write_trip(self, second: str) -> None:
        (self.folder / "trip.py").write_text(TRIP.format(second), encoding="utf-8")

    def change(self, what: str) -> None:
        """``offline`` and ``online`` are the server, ``changed`` and ``unchanged`` the agent."""
        if what in ("offline", "online"):
            self.server = self.world.address if what == "online" else "http://127.0.0.1:9"
            return
        asked, more = (
            '[{"role": "user",',
            '[{"role": "system", "content": "Be brief."}, {"role": "user",',
        )
        agent = self.folder / "agent.py"
        text = agent.read_text(encoding="utf-8")
        before, after = (asked, more) if what == "changed" else (more, asked)
        if before not in text:
            raise SystemExit(f"the agent does not say {before}: change docs/pictures.py")
        agent.write_text(text.replace(before, after), encoding="utf-8")

    def shell(self, command: str, *, plain: bool = True) -> list[str]:
        """What the command prints, to a pipe or to a terminal."""
        here = Path(sys.executable).parent
        env = {
            "COLUMNS": str(COLUMNS),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            "MODEL_API_KEY": KEY,
            "MODEL_SERVER": self.server,
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "REENACT_CONFIG_DIR": str(self.folder / "config"),
        }
        printed = (_piped if plain else _typed)(command, self.folder, env)
        return printed.replace(f"{self.folder}{os.sep}", "").splitlines()

    def lines(self, terminal: Terminal) -> list[str]:
        """The commands as a person types them, and what they print."""
        found: list[str] = []
        for command in terminal.commands:
            if command.startswith("# "):
                self.change(command[2:])
                continue
            if command.startswith("! "):
                self.shell(command[2:])
                continue
            printed = self.shell(command, plain=terminal.plain)
            found += [f"$ {command}", *_report_alone(_without(printed, terminal.cut)), ""]
        while found and not found[-1]:
            found.pop()
        return found


def _piped(command: str, folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
    )
    return done.stdout


def _typed(command: str, folder: Path, env: dict[str, str]) -> str:
    """In a terminal: of a line that was written over, the last state."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["sh", "-c", command], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        found = b""
        try:
            while some := os.read(ours, 65536):
                found += some
        except OSError:
            pass  # how a terminal says that nobody writes to it any more
    os.close(ours)
    lines = found.decode().replace("\r\n", "\n").split("\n")
    return "\n".join(re.split(r"\r(?:\x1b\[K)?", line)[-1] for line in lines)


def _report_alone(printed: list[str]) -> list[str]:
    """Of a divergence without the traceback before it."""
    if "reenact.DivergenceError" in printed:
        return printed[printed.index("reenact.DivergenceError") + 1 :]
    return printed


def _without(printed: list[str], sections: Iterable[str]) -> list[str]:
    """Without the named sections of a report; each ends with an empty line."""
    kept: list[str] = []
    leaving = False
    for line in printed:
        if line.strip() in sections:
            leaving = True
        if not leaving:
            kept.append(line)
        elif not line.strip():
            leaving = False
    return kept


# Drawing

INK, GREEN, RED, PAPER = "#e6edf3", "#7ee787", "#ff7b72", "#0d1117"
_COLOURS = {
    "2": "#7d8590",
    "31": RED,
    "32": GREEN,
    "33": "#e3b341",
    "34": "#79c0ff",
    "35": "#d2a8ff",
    "36": "#76e3ea",
}
_REVERSED = "7"
_SGR = re.compile(r"\x1b\[([0-9;]*)m")


def draw(terminal: Terminal, lines: list[str]) -> str:
    """The lines as a terminal, in SVG."""
    lines = [part for line in lines for part in _wrapped(line)]
    height = MARGIN * 2 + LEADING * len(lines)
    rows = [
        f'<text x="{MARGIN}" y="{MARGIN + LEADING * number + 14}" fill="{_colour(line)}">{_spans(line)}</text>'
        for number, line in enumerate(lines)
        if line.strip()
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(terminal.about)}">',
            f'<rect width="{WIDTH}" height="{height}" rx="10" fill="{PAPER}"/>',
            '<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="13">',
            *rows,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _wrapped(line: str) -> list[str]:
    """In parts that fit, between words."""
    if "\x1b" in line or len(line) <= COLUMNS:
        return [line]
    at = line.rfind(" ", 1, COLUMNS + 1)
    at = at if at > 0 else COLUMNS
    return [line[:at], *_wrapped(line[at:].lstrip())]


def _colour(line: str) -> str:
    line = line.strip()
    if line.startswith(("$ ", "+ ")):
        return GREEN
    return RED if line.startswith(("divergence:", "- ")) and "- If" not in line else INK


def _spans(line: str) -> str:
    """The colours of a terminal as those of SVG."""
    found = ""
    parts = _SGR.split(line)
    for text, code in zip(parts[::2], ["", *parts[1::2]], strict=True):
        codes = code.split(";")
        colour = next((_COLOURS[one] for one in codes if one in _COLOURS), None)
        if _REVERSED in codes:
            colour = None  # SVG has no paper behind a word; it stands between two halves of its bar
        # Browsers make one of several spaces, whatever is said about that.
        inside = escape(text, quote=False).replace(" ", "\u00a0")
        found += f'<tspan fill="{colour}">{inside}</tspan>' if colour and text else inside
    return found


def shoot(browser: Any, page: Page, address: str) -> bytes:
    """The page as a browser shows it."""
    width, height = page.size
    opened = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if page.dark else "light",
    )
    opened.goto(address)
    for key in page.keys:
        opened.keyboard.press(key)
    if page.closer:
        boxes = [bar.bounding_box() for bar in opened.locator(".bar.llm").all()]
        row = opened.locator("#axis").bounding_box()["y"] + 8
        opened.mouse.move(min(box["x"] for box in boxes) - 8, row)
        opened.mouse.down()
        opened.mouse.move(max(box["x"] + box["width"] for box in boxes) + 8, row, steps=4)
        opened.mouse.up()
        opened.mouse.move(width - 4, height - 4)
    opened.wait_for_timeout(200)
    taken: bytes = opened.screenshot()
    opened.close()
    return taken


def shoot_all(scene: Scene, names: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name in names:
            scene.shell(PAGES[name].command)
            address = (scene.folder / "page.html").as_uri()
            (FOLDER / f"{name}.png").write_bytes(shoot(browser, PAGES[name], address))
        browser.close()


def files() -> set[str]:
    """The names of the pictures that are drawn here."""
    return {f"{name}.svg" for name in TERMINALS} | {f"{name}.png" for name in PAGES}


def main(wanted: list[str]) -> None:
    unknown = sorted({*wanted} - {*TERMINALS, *PAGES})
    if unknown:
        raise SystemExit(f"error: nothing is drawn here that is called {', '.join(unknown)}")
    FOLDER.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    scene = Scene(folder)
    try:
        scene.set_up()
        for name, terminal in TERMINALS.items():
            if not wanted or name in wanted:
                drawn = draw(terminal, scene.lines(terminal))
                (FOLDER / f"{name}.svg").write_text(drawn, encoding="utf-8")
        shoot_all(scene, [name for name in PAGES if not wanted or name in wanted])
    finally:
        scene.world.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
