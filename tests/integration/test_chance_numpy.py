"""numpy: its generators and the functions of the module, in sessions and in whole programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import reenact
from tests.integration.running import Theatre

numpy: Any = pytest.importorskip("numpy", reason="numpy is not installed")

WAYS: dict[str, Callable[[], Any]] = {
    "rand": lambda: numpy.random.rand(3),
    "randn": lambda: numpy.random.randn(2, 2),
    "randint": lambda: numpy.random.randint(0, 1000, 5),
    "random": lambda: numpy.random.random(),
    "sample": lambda: numpy.random.sample(2),
    "normal": lambda: numpy.random.normal(3, 4, 3),
    "choice": lambda: numpy.random.choice(100, 5),
    "permutation": lambda: numpy.random.permutation(10),
    "bytes": lambda: numpy.frombuffer(numpy.random.bytes(8), dtype="u1"),
    "state": lambda: numpy.random.get_state()[1],
    "default_rng": lambda: numpy.random.default_rng().random(3),
    "RandomState": lambda: numpy.random.RandomState().rand(3),
    "SeedSequence": lambda: numpy.array([numpy.random.SeedSequence().entropy % 2**53]),
    "PCG64": lambda: numpy.random.Generator(numpy.random.PCG64()).integers(0, 9, 9),
    "reseeded": lambda: (numpy.random.seed(), numpy.random.rand(2))[1],
    "spawned": lambda: numpy.random.default_rng().spawn(2)[1].random(2),
}


def enact(path: Path, program: Callable[[], Any]) -> list[Any]:
    found = []
    for mode in ("record", "replay"):
        with reenact.session(capture=path, mode=mode, strict=True):
            found.append(program())
    return found


@pytest.mark.parametrize("way", WAYS)
def test_what_was_drawn_is_drawn_again(way: str, tmp_path: Path) -> None:
    recorded, replayed = enact(tmp_path / "c", lambda: [WAYS[way](), WAYS[way]()])
    assert [one.tolist() for one in map(numpy.asarray, replayed)] == [
        one.tolist() for one in map(numpy.asarray, recorded)
    ]
    with reenact.open_recording(tmp_path / "c") as source:
        assert len(source) == 1


def test_what_is_seeded_is_as_ever(tmp_path: Path) -> None:
    def program() -> Any:
        numpy.random.seed(42)
        own = numpy.random.default_rng(7).random(2), numpy.random.RandomState(7).rand(2)
        return [numpy.random.rand(3).tolist(), numpy.random.normal(), *map(list, own)]

    alone = program()
    assert enact(tmp_path / "c", program) == [alone, alone]


def test_what_was_seeded_before_the_session_is_as_ever(tmp_path: Path) -> None:
    numpy.random.seed(42)
    alone = numpy.random.rand(3).tolist()
    numpy.random.seed(42)
    with reenact.session(capture=tmp_path / "c", mode="record"):
        assert numpy.random.rand(3).tolist() == alone
    numpy.random.seed(43)
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True):
        assert numpy.random.rand(3).tolist() == alone


def foreign(name: str, text: str) -> Any:
    """An installed module."""
    module = ModuleType(name)
    module.__file__ = f"/x/site-packages/{name}.py"
    exec(text, vars(module))
    return module


def test_a_library_that_draws_does_so_again(tmp_path: Path) -> None:
    library = foreign(
        "learner", "import numpy\ndef draw():\n    return numpy.random.rand(2).tolist()"
    )

    def program() -> Any:
        return library.draw(), numpy.random.rand(), library.draw()

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded


def test_a_runner_of_tests_may_seed_what_it_likes(tmp_path: Path) -> None:
    runner = foreign(
        "pytest_randomly", "import numpy\ndef begin(seed):\n    numpy.random.seed(seed)"
    )
    seeds = iter(range(9))

    def program() -> Any:
        runner.begin(next(seeds))
        first = numpy.random.rand()
        runner.begin(next(seeds))
        return first, numpy.random.rand()

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded
    assert recorded[0] != recorded[1]


def test_all_is_as_it_was_after_the_session(tmp_path: Path) -> None:
    before = dict(vars(numpy.random))
    with reenact.session(capture=tmp_path / "c", mode="record"):
        assert numpy.random.rand is not before["rand"]
    changed = [name for name, value in vars(numpy.random).items() if value is not before[name]]
    assert changed == []
    assert numpy.random.rand.__self__ is numpy.random.mtrand._rand


PROGRAM = """
    import threading
    import numpy as np
    from numpy.random import rand

    found = {}

    def work(number):
        found[number] = [np.random.normal(size=number + 1).tolist(), rand(), np.random.randint(99)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for one in threads: one.start()
    for one in threads: one.join()
    print(sorted(found.items()))
    print(rand(2), np.random.default_rng().random(), np.random.RandomState().rand())
    np.random.seed(3); print(np.random.rand(2), np.random.permutation(5))
    np.random.seed(); print(np.random.rand(2), np.random.mtrand._rand.rand())
    print(np.random.RandomState(42).rand(), np.random.default_rng(5).random())
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "random"])
def test_a_program_with_threads(seed: str, theatre: Theatre) -> None:
    theatre.write("prog.py", PROGRAM)
    assert theatre.check("prog.py", PYTHONHASHSEED=seed).code == 0


def test_moving_the_import_changes_nothing(theatre: Theatre) -> None:
    """Whoever holds the shared generator itself draws from a state that is derived by name."""
    use = "print(random.random(), np.random.mtrand._rand.rand(), np.random.rand())\n"
    theatre.write("prog.py", f"import random\nimport numpy as np\nimport numpy.random\n{use}")
    recorded = theatre.record("prog.py")
    moved = f"import numpy.random\nimport numpy as np\nprint(end='')\nimport random\n{use}"
    theatre.write("prog.py", moved)
    assert recorded.code == 0, recorded.err
    assert theatre.replay("prog.py").own == recorded.own


def test_two_recordings_differ(theatre: Theatre) -> None:
    text = "import numpy.random\nprint(numpy.random.mtrand._rand.rand(), numpy.random.rand())\n"
    theatre.write("prog.py", text)
    first, second = (theatre.record("prog.py", name=name).out.split() for name in "ab")
    assert all(a != b for a, b in zip(first, second, strict=True))
    assert len(first) == 2


def test_a_program_without_numpy_does_not_load_it(theatre: Theatre) -> None:
    theatre.write("prog.py", "import random, sys\nprint('numpy' in sys.modules, random.random())\n")
    assert theatre.check("prog.py").out.startswith(b"False")
    assert sys.modules["numpy"] is numpy
