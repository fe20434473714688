"""What must not be in the repository, and what every part of it must have.

The forbidden words are put together from halves, so that this file does not contain them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.meta.tree import ROOT, SOURCE, files

_LIMIT = 1_000_000
_MODEL = r"(claude|chatgpt|gpt-?\d?|copilot|gemini|codex|an? (ai|llm|language model)\b)"

FORBIDDEN = {
    "address of a package registry": "|".join(
        [
            "pypi" + r"\.org",
            "python" + "hosted",
            "npm" + "js" + r"\.(org|com)",
            "deb" + r"\.debian",
            "--(extra-)?index" + "-url",
        ]
    ),
    "path of somebody's machine": "|".join(["/wor" + "k/", "/far" + "m/", "/ro" + "ot/"]),
    "words about who or what wrote it": "|".join(
        [
            "co-auth" + "ored-by",
            "(generated|written|authored) (by|with) " + _MODEL,
            r"\bas an a" + r"i\b",
            "claude" + " code",
            "@anthro" + r"pic\.com",
        ]
    ),
}
LEFT_OVER = r"\b(TO" + "DO|FIX" + "ME|XX" + "X|HA" + r"CK)\b|<<<<" + "<<<|>>>>" + ">>>"
_CHECKS = re.compile(r"assert|raises|expect|check|verify|fail|playbook|warns")


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@cache
def _tree(path: Path) -> ast.Module:
    """Each file is parsed once for all tests of this module."""
    return ast.parse(_text(path))


def _python(*tops: str) -> list[Path]:
    return [p for p in files() if p.suffix == ".py" and p.relative_to(ROOT).parts[0] in tops]


def _hits(pattern: str, paths: list[Path], flags: int = 0) -> list[str]:
    """No pattern looks for the ends of a line: where the whole text has none, no line has one."""
    wanted = re.compile(pattern, flags)
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in paths
        if wanted.search(_text(path))
        for number, line in enumerate(_text(path).splitlines(), 1)
        if wanted.search(line)
    ]


@pytest.mark.parametrize("what", sorted(FORBIDDEN))
def test_no_file_contains(what: str) -> None:
    assert _hits(FORBIDDEN[what], files(), re.IGNORECASE) == []


def test_nothing_is_left_over() -> None:
    code = [p for p in files() if p.suffix in {".py", ".md", ".toml", ".sh"} or not p.suffix]
    assert _hits(LEFT_OVER, code) == []


def test_nothing_is_half_done_in_the_source() -> None:
    assert _hits(r"NotImplemented" + "Error", _python("src")) == []
    assert _hits(r"\bbreak" + r"point\(|\bpdb\b", _python("src")) == []


def test_only_the_command_line_prints() -> None:
    """Elsewhere a `print` is left over from debugging, unless it names the file it prints to."""
    printing = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _python("src")
        if path.relative_to(SOURCE / "reenact").parts[0] != "cli"
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
        and not any(keyword.arg == "file" for keyword in node.keywords)
    ]
    assert printing == []


def test_no_exception_is_swallowed_without_a_word() -> None:
    """`except X: pass` needs a comment that gives the reason."""
    silent = [
        f"{path.relative_to(ROOT)}:{handler.lineno}"
        for path in _python("src")
        for handler in ast.walk(_tree(path))
        if isinstance(handler, ast.ExceptHandler)
        and all(isinstance(step, ast.Pass) for step in handler.body)
        and not _commented(path, handler)
    ]
    assert silent == []


def _commented(path: Path, node: ast.ExceptHandler) -> bool:
    lines = _text(path).splitlines()[node.lineno - 1 : node.end_lineno]
    return any("#" in line for line in lines)


def test_modules_import_from_each_others_home() -> None:
    """`from reenact import Name` inside the package would climb to the roof and back."""
    climbing = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _python("src")
        for node in ast.walk(_tree(path))
        if (isinstance(node, ast.ImportFrom) and node.module == "reenact" and not _rooms(node))
        or (isinstance(node, ast.Import) and any(name.name == "reenact" for name in node.names))
    ]
    assert climbing == []


def _rooms(node: ast.ImportFrom) -> bool:
    house = SOURCE / "reenact"
    return all(
        (house / name.name).is_dir() or (house / f"{name.name}.py").exists() for name in node.names
    )


def test_no_file_is_large() -> None:
    assert [str(p.relative_to(ROOT)) for p in files() if p.stat().st_size > _LIMIT] == []


def test_every_package_folder_is_a_package() -> None:
    folders = {p.parent for p in _python("src")}
    assert [str(f) for f in folders if not (f / "__init__.py").exists()] == []
    assert (SOURCE / "reenact" / "py.typed").exists()


def test_every_test_checks_something() -> None:
    idle = [
        f"{path.relative_to(ROOT)}:{test.lineno} {test.name}"
        for path in _python("tests")
        for test in _tests(path)
        if not _asserts(test) and not _CHECKS.search(ast.unparse(test).replace(test.name, ""))
    ]
    assert idle == []


def _asserts(test: ast.AST) -> bool:
    """Most do, and are not written out to be searched."""
    return any(isinstance(node, ast.Assert) for node in ast.walk(test))


def test_no_test_patches_our_own_code_or_sleeps() -> None:
    """A test that wants to patch us has found a missing seam; one that sleeps, a missing signal."""
    patched = r"mock\." + r"patch|monkeypatch\.setattr\(.?reenact"
    assert _hits(patched, _python("tests")) == []
    assert _hits(r"time\." + r"sleep\(|asyncio\." + r"sleep\([1-9]", _python("tests")) == []


def _tests(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            yield node


def test_no_test_imports_another_test_module() -> None:
    """What two test modules need is in a helper module, which has no tests that would run twice."""
    shared = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in _python("tests")
        for name in _imported(path)
        if re.match(r"tests(\.\w+)*\.test_\w+\.", f"{name}.")
    ]
    assert shared == []


def test_no_test_imports_a_private_name_of_another_package() -> None:
    """The tests of a package are in the folders of its name, here or in `unit/`; only those may know
    its private modules. Its private functions are known to no test."""
    private = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in _python("tests")
        for name in _imported(path)
        if (found := re.match(r"reenact(\.\w+)*?\._[a-z]\w*", name))
        and not _is_test_of(path, found[0])
    ]
    assert private == []


def _imported(path: Path) -> Iterator[str]:
    """Everything that a module imports, at its top or later, as `package.module.name`."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def _is_test_of(path: Path, private: str) -> bool:
    """Is ``path`` a test of the package that the private module belongs to?"""
    if not (
        SOURCE.joinpath(*private.split(".")).with_suffix(".py").exists()
        or SOURCE.joinpath(*private.split(".")).is_dir()
    ):
        return False  # a name, not a module
    place = path.relative_to(ROOT / "tests").as_posix()
    package = private.split(".")[1]
    return place.startswith((f"{package}/", f"unit/{package}/", f"unit/test{package}.py")) or (
        private == "reenact._system" and place == "clocks.py"
    )


def test_every_test_file_has_tests() -> None:
    empty = [
        str(path.relative_to(ROOT))
        for path in _python("tests")
        if path.name.startswith("test_") and not any(_tests(path)) and "TestCase" not in _text(path)
    ]
    assert empty == []


def test_every_promise_names_tests_that_exist() -> None:
    """In the table of CONTRIBUTING: a renamed or deleted test takes its promise along."""
    text = _text(ROOT / "CONTRIBUTING.md")
    table = text.partition("| promise | tests")[2].partition("\n\n")[0].splitlines()[2:]
    named = {row: re.findall(r"`([\w/*]+(?:\.py|/))`", row.rsplit("|", 2)[1]) for row in table}
    assert len(named) > 20
    assert [row for row, names in named.items() if not names] == []
    missing = [
        name for names in named.values() for name in names if not any((ROOT / "tests").glob(name))
    ]
    assert missing == []
