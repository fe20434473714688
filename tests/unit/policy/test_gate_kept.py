"""Compiled patterns of an earlier process: the same verdicts, and compiled again when in doubt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reenact.policy.redaction.gate import PatternCache

pytest.importorskip("hyperscan")

_LOOK = """
import sys
from reenact.policy.redaction.gate import Gate
from reenact.policy.redaction.names import Names
names = Names(sys.argv[1:])
samples = (b'{"password":"x"}', b'{"chunks":["a"]}', b'{"n":1}', b'{"xcorptag":"x"}')
gates = (Gate(names, engine="hyperscan"), Gate(engine="hyperscan", shapes_only=True))
print([int(gate.look(sample)) for gate in gates for sample in samples])
"""
_NOTHING = b"not a database"
CLEAN, STREAMS, SUSPECT = 0, 1, 2
PLAIN = [SUSPECT, STREAMS, CLEAN, CLEAN, CLEAN, STREAMS, CLEAN, CLEAN]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REENACT_CONFIG_DIR", str(tmp_path))
    return tmp_path


def _verdicts(*names: str) -> list[int]:
    command = [sys.executable, "-c", _LOOK, *names]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    return [int(word) for word in done.stdout.strip("[]\n").split(",")]


def _kept(config: Path) -> dict[str, bytes]:
    files = sorted((config / "compiled").iterdir())
    return {path.name: path.read_bytes() for path in files}


def test_the_next_process_says_the_same(config: Path) -> None:
    assert _verdicts() == PLAIN
    kept = _kept(config)
    assert len(kept) == 2
    assert _verdicts() == PLAIN
    assert _kept(config) == kept


def test_it_really_is_what_was_kept(config: Path) -> None:
    """Each database in the place of the other: what was compiled is not compiled again."""
    assert _verdicts() == PLAIN
    shelf = PatternCache(config / "compiled")
    one, other = _kept(config)
    contents = shelf.get(one), shelf.get(other)
    assert contents[0] is not None
    assert contents[1] is not None
    shelf.keep(one, contents[1])
    shelf.keep(other, contents[0])
    assert _verdicts() == PLAIN[4:] + PLAIN[:4]


def test_other_names_are_compiled_apart(config: Path) -> None:
    assert _verdicts() == PLAIN
    assert _verdicts("x-corp-tag") == [*PLAIN[:3], SUSPECT, *PLAIN[4:]]
    assert _verdicts() == PLAIN
    assert len(_kept(config)) == 3


@pytest.mark.parametrize("damage", ["cut", "no database"])
def test_what_cannot_be_loaded_is_compiled_and_kept_again(damage: str, config: Path) -> None:
    assert _verdicts() == PLAIN
    shelf = PatternCache(config / "compiled")
    kept = _kept(config)
    for name, content in kept.items():
        if damage == "cut":
            (config / "compiled" / name).write_bytes(content[:1000])
        else:
            shelf.keep(name, _NOTHING)
    assert _verdicts() == PLAIN
    assert {shelf.get(name) for name in kept}.isdisjoint({None, _NOTHING})
