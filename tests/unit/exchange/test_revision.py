"""Revisions of routes: they change with the code, and with nothing else."""

import ast
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from reenact.exchange.route_revision import define
from reenact.exchange.steps import step

SOURCE = '''
from reenact.exchange import step
import helping

@step("check")
def check(n):
    """Words."""
    return n + 1  # more words

def other(n):
    return n

def handler(message):
    return check(message.body) + helping.more(1) + inner()(2)

def inner():
    def deep(n):
        return other(n)
    return deep

def unrelated():
    return 1
'''
HELPING = "def more(n):\n    return n\n"
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import app
from reenact.exchange.route_revision import define
found = define("r", "route", sys.argv[2], (app.handler,))
print(found.revision, *found.processors)
"""


def revision(folder: Path, source: str = SOURCE, *, seed: str = "0", version: str = "1") -> str:
    (folder / "app.py").write_text(source, encoding="utf-8")
    (folder / "helping.py").write_text(HELPING, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), version],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": seed},
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_what_changes_a_revision_and_what_does_not(tmp_path):
    first = revision(tmp_path)
    assert first.endswith(" check")
    same = {
        "another process": revision(tmp_path, seed="7"),
        "comments": revision(tmp_path, SOURCE.replace("more words", "other words")),
        "docstrings": revision(tmp_path, SOURCE.replace("Words.", "Others.")),
        "layout": revision(tmp_path, "\n\n\n" + SOURCE),
        "what it does not use": revision(tmp_path, SOURCE.replace("return 1\n", "return 2\n")),
    }
    assert set(same.values()) == {first}, same
    other = {
        "a step": revision(tmp_path, SOURCE.replace("n + 1", "n + 2")),
        "a step's id": revision(tmp_path, SOURCE.replace('"check"', '"look"')),
        "what an inner function uses": revision(
            tmp_path, SOURCE.replace("return n\n", "return -n\n")
        ),
        "the handler": revision(tmp_path, SOURCE.replace("helping.more(1)", "helping.more(2)")),
        "the version": revision(tmp_path, version="2"),
    }
    assert len({first, *other.values()}) == 6, other


def test_somebody_else_parses_at_the_same_time():
    alone = define("r", "route", "1", (revision,))
    interrupting = iter(range(3))

    def parse_something(_phase: str, _info: object) -> None:
        here = sys._getframe(1).f_code
        if here is ast.parse.__code__ and next(interrupting, None) is not None:
            ast.parse("x = 1 + 2")

    before = gc.get_threshold()
    gc.callbacks.append(parse_something)
    gc.set_threshold(5)
    try:
        assert define("r", "route", "1", (revision,)) == alone
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(parse_something)
    if sys.version_info < (3, 12):  # later ones collect garbage between two instructions only
        assert next(interrupting, None) is None


def test_code_without_source():
    scope: dict = {}
    exec("def one(m):\n    return m in {1, 2, 3}", scope)
    exec("def two(m):\n    return m in {1, 2, 4}", scope)
    first = define("r", "route", "", (scope["one"],))
    assert first == define("r", "route", "", (scope["one"],))
    assert first.revision != define("r", "route", "", (scope["two"],)).revision


def test_ids_and_kinds_count():
    def handler(message):
        return message

    revisions = {
        define("a", "route", "", (handler,)).revision,
        define("b", "route", "", (handler,)).revision,
        define("a", "task", "", (handler,)).revision,
        define("a", "route", "", ()).revision,
    }
    assert len(revisions) == 4


def test_a_handler_that_is_an_object():
    class Handler:
        def __call__(self, message):
            return helped(message)

    assert define("a", "route", "", (Handler(),)).processors == ("helped",)


@step("helped")
def helped(message):
    return message
