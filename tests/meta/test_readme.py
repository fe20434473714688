"""The documentation does what it says: its code and commands are run as written.

Per file, in one new folder and in order: `python` blocks in one interpreter that has the installed wheel,
`console` blocks in bash. `no-run` leaves a block alone, `exit=N` says what its last command exits with.
A console block that shows output must show the right output; so must a `text printed` block, which
shows what the `python` block before it printed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meta.conftest import Installation
from tests.meta.markdown import Block, Command, blocks, commands, matches
from tests.meta.tree import ROOT

PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md")))
]
# Shown, never run. Anything else has to be `python` or `console`, or it would rot unseen.
DATA = {"text", "json", "jsonl", "toml", "yaml", "ini", "diff", "markdown", "mermaid", "makefile"}
NOT_HERE = re.compile(
    r"(sudo )?(make|git|pip3? install|python3? -m pip install|python3? -m venv)\b"
)

# Reads one JSON object per line, {"code", "line", "page"}, and answers each with the traceback or "".
_INTERPRETER = """
import json, os, sys, traceback
answers = os.fdopen(int(sys.argv.pop()), "w", encoding="utf-8")
requests = os.fdopen(os.dup(0), encoding="utf-8")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
sys.argv[:] = [""]
sys.path.insert(0, "")
space = {"__name__": "__main__", "__builtins__": __builtins__}
for request in map(json.loads, requests):
    problem = ""
    try:
        code = "\\n" * (request["line"] - 1) + request["code"]
        exec(compile(code, request["page"], "exec"), space)
    except BaseException:
        problem = traceback.format_exc()
    sys.stdout.flush()
    print(json.dumps(problem), file=answers, flush=True)
"""

# Variables and the folder carry over from one command to the next, as they do for a reader.
_SHELL = """
[ ! -e "$STATE" ] || . "$STATE"
trap 'code=$?; { declare -px; printf "cd %q\\n" "$PWD"; } > "$STATE"; exit $code' EXIT
"""


class Reader:
    """Somebody who follows one page from top to bottom in one folder."""

    def __init__(self, page: Path, folder: Path, installation: Installation) -> None:
        self.page = page
        self.folder = folder / "here"
        self.folder.mkdir()
        self.environment = installation.environment(folder) | {"STATE": str(folder / "state")}
        self.python = installation.python
        self.interpreter: subprocess.Popen[str] | None = None
        self.output = (folder / "python-output").open("w+", encoding="utf-8")
        self.seen = 0

    def close(self) -> None:
        if self.interpreter is not None and self.interpreter.stdin is not None:
            self.interpreter.stdin.close()
            self.interpreter.wait(timeout=60)
            self.answers.close()
        self.output.close()

    def run_python(self, block: Block) -> str:
        """Run a block in the page's interpreter; the traceback, or nothing."""
        if self.interpreter is None:
            self._start_interpreter()
        assert self.interpreter is not None
        assert self.interpreter.stdin is not None
        self.seen = len(self._printed())
        request = {"code": block.text, "line": block.line, "page": str(self.page)}
        self.interpreter.stdin.write(json.dumps(request) + "\n")
        self.interpreter.stdin.flush()
        answer = self.answers.readline()
        return json.loads(answer) if answer else f"the interpreter ended\n{self._printed()}"

    def check_printed(self, block: Block) -> str:
        """Compare with what the last Python block printed; what is wrong, or nothing."""
        printed = self._printed()[self.seen :]
        if matches(tuple(block.text.splitlines()), printed):
            return ""
        return f"shown:\n{block.text}\nprinted:\n{printed}"

    def _printed(self) -> str:
        # Opened anew: the interpreter writes where this end of the file stands.
        return Path(self.output.name).read_text(encoding="utf-8")

    def _start_interpreter(self) -> None:
        reading, writing = os.pipe()
        self.interpreter = subprocess.Popen(
            [self.python, "-W", "error", "-c", _INTERPRETER, str(writing)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            pass_fds=[writing],
            encoding="utf-8",
        )
        os.close(writing)
        self.answers = os.fdopen(reading, encoding="utf-8")

    def run_command(self, command: Command, exit_code: int) -> str:
        """Run a command; what is wrong with its exit code or output, or nothing."""
        done = subprocess.run(
            ["bash", "-c", _SHELL + command.typed],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=120,
        )
        if done.returncode != exit_code:
            return f"exit code {done.returncode}, not {exit_code}\n{done.stdout}"
        if command.shown and not matches(command.shown, done.stdout):
            shown = "\n".join(command.shown)
            return f"shown:\n{shown}\n\nprinted:\n{done.stdout}"
        return ""


def _problems(reader: Reader, block: Block) -> Iterator[str]:
    if "printed" in block.options:
        if problem := reader.check_printed(block):
            yield f"{reader.page.name}:{block.line}: {problem}"
        return
    if "no-run" in block.options or block.language in DATA:
        return
    if block.language == "python":
        if problem := reader.run_python(block):
            yield f"{reader.page.name}:{block.line}: {problem}"
    elif block.language == "console":
        typed = commands(block)
        for command in typed:
            if NOT_HERE.match(command.typed):
                continue
            exit_code = block.exit_code if command is typed[-1] else 0
            if problem := reader.run_command(command, exit_code):
                yield f"{reader.page.name}:{command.line}: $ {command.typed}\n{problem}"
    else:
        yield f"{reader.page.name}:{block.line}: ```{block.language} is neither run nor data"


@pytest.mark.parametrize("page", PAGES)
def test_page_does_what_it_says(page: str, tmp_path: Path, full: Installation) -> None:
    reader = Reader(ROOT / page, tmp_path, full)
    try:
        for block in blocks(ROOT / page):
            for problem in _problems(reader, block):
                pytest.fail(problem, pytrace=False)
    finally:
        reader.close()


def test_pages_name_only_make_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    named = {
        (page, a or b)
        for page in PAGES
        for a, b in re.findall(
            r"^\s*\$ make ([a-z]+)|`make ([a-z]+)`",
            (ROOT / page).read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    }
    assert {one for one in named if one[1] not in targets} == set()


def test_readme_names_the_two_commands_everybody_needs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme


def test_pages_link_to_files_that_exist() -> None:
    broken = [
        f"{page}: {name}"
        for page in PAGES
        for name in re.findall(
            r"\]\((?!https?:|mailto:|#)([^)#\s]+)", (ROOT / page).read_text(encoding="utf-8")
        )
        if not (ROOT / page).parent.joinpath(name).exists()
    ]
    assert broken == []
