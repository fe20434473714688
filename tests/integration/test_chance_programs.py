"""Whole programs that draw chance, recorded and replayed as processes: the same to the last byte."""

from __future__ import annotations

import re
import sys

import pytest

import reenact
from reenact.store.seal import read_sealed
from tests.integration.running import Theatre

EVERYTHING = """
    import asyncio, os, random, secrets, sys, tempfile, threading, uuid
    from concurrent.futures import ThreadPoolExecutor
    from random import choice, gauss, random as fraction, shuffle
    from secrets import token_urlsafe
    from uuid import uuid4 as new

    KEYS = {new() for _ in range(5)}
    print(list(KEYS), {f"{n}": n for n in random.sample(range(1000), 5)})

    deck = list(range(52))
    shuffle(deck)
    print(deck, choice(deck), fraction(), gauss(), gauss(1, 2), random.randbytes(9))
    print(random.Random().random(), random.Random(42).random(), random.SystemRandom().random())
    print(os.urandom(6), secrets.token_hex(), token_urlsafe(9), secrets.randbelow(10**40))
    print(uuid.uuid1(), uuid.uuid4(), {str(new()) for _ in range(3)})

    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as file:
        print(folder, file.name)

    def work(number):
        return number, [(random.random(), random.gauss(), secrets.token_hex(2)) for _ in range(3)]

    with ThreadPoolExecutor(4) as pool:
        print(list(pool.map(work, range(12))))

    found = {}
    threads = [threading.Thread(target=lambda n=n: found.update([work(n)])) for n in range(5)]
    for one in threads: one.start()
    for one in threads: one.join()
    print(sorted(found.items()))

    async def task(number):
        await asyncio.sleep(random.random() / 1000)
        return work(number)

    async def main():
        return await asyncio.gather(*map(task, range(8)))

    print(asyncio.run(main()))
    random.seed(7); print(random.random())
    random.seed(); print(random.random(), file=sys.stderr)
"""

SURROUNDINGS = {
    "hash seed 0": {"PYTHONHASHSEED": "0"},
    "as it is": {},
    "hash seed 5, Kathmandu": {"PYTHONHASHSEED": "5", "TZ": "Asia/Kathmandu"},
    "hash seed 77, C": {"PYTHONHASHSEED": "77", "LC_ALL": "C", "TZ": "America/St_Johns"},
}


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("where", SURROUNDINGS)
def test_a_program_that_draws_everything(where: str, theatre: Theatre) -> None:
    theatre.write("prog.py", EVERYTHING)
    ran = theatre.check("prog.py", **SURROUNDINGS[where])
    assert ran.code == 0, ran.err
    assert len(ran.out.splitlines()) == 10


@pytest.mark.slow
def test_two_recordings_differ_and_each_replay_is_its_own(theatre: Theatre) -> None:
    theatre.write("prog.py", EVERYTHING)
    recorded = [theatre.record("prog.py", name=name) for name in ("a", "b")]
    assert recorded[0].out != recorded[1].out
    for name, ran in zip(("a", "b", "a"), [*recorded, recorded[0]], strict=True):
        assert theatre.replay("prog.py", name=name).own == ran.own


def test_forked_and_spawned_children_draw_in_their_own_lanes(theatre: Theatre) -> None:
    text = """
        import multiprocessing, random, secrets, uuid

        def work(number, kind):
            print(number, kind, random.random(), uuid.uuid4(), secrets.token_hex(3), flush=True)

        if __name__ == "__main__":
            for number, kind in enumerate(["fork", "spawn", "fork"]):
                process = multiprocessing.get_context(kind).Process(target=work, args=(number, kind))
                process.start()
                process.join()
                print(random.random(), flush=True)
    """
    theatre.write("prog.py", text)
    assert theatre.check("prog.py").code == 0


def test_an_extra_draw_says_where_it_stands(theatre: Theatre) -> None:
    theatre.write("prog.py", "import random\nprint(random.random())\n")
    theatre.record("prog.py")
    theatre.write("prog.py", "import random\nprint(random.random())\nprint(random.random())\n")
    ran = theatre.replay("prog.py")
    assert ran.code == 1
    assert "nondeterministic_underflow" in ran.err
    assert "prog.py" in ran.err
    assert "line 3" in ran.err


def test_moving_an_import_changes_nothing(theatre: Theatre) -> None:
    use = "print(tempfile.mktemp(), random.random(), uuid.uuid4(), secrets.token_hex(4))\n"
    theatre.write("prog.py", f"import random, secrets, tempfile, uuid\n{use}")
    recorded = theatre.record("prog.py")
    theatre.write("prog.py", f"import uuid\nprint(end='')\nimport tempfile, secrets, random\n{use}")
    assert theatre.replay("prog.py").own == recorded.own


def test_a_module_of_the_program_that_draws_when_it_is_imported(theatre: Theatre) -> None:
    theatre.write("own.py", "import random, uuid\nRUN = uuid.uuid4()\nRNG = random.Random()\n")
    theatre.write("prog.py", "import own\nprint(own.RUN, own.RNG.random(), own.RNG.gauss())\n")
    assert theatre.check("prog.py").code == 0


def test_secrets_are_sealed_and_stand_nowhere_in_clear(theatre: Theatre) -> None:
    text = "import secrets\nfor _ in range(3):\n    print(secrets.token_hex(20))\n"
    theatre.write("prog.py", text)
    tokens = theatre.check("prog.py").out.split()
    place = theatre.folder / "c"
    whole = b"".join(file.read_bytes() for file in place.rglob("*") if file.is_file())
    assert [token for token in tokens if token in whole] == []
    assert len(list(read_sealed(place / "sealed"))) == 3


def test_without_the_key_a_whole_program_runs_with_others(theatre: Theatre) -> None:
    text = "import random, secrets\nprint(secrets.token_hex(8), random.random())\n"
    theatre.write("prog.py", text)
    recorded = theatre.record("prog.py").out.split()
    runs = [theatre.replay("prog.py", REENACT_CONFIG_DIR=str(theatre.folder)) for _ in range(2)]
    assert runs[0].own == runs[1].own
    secret, chance = runs[0].out.split()
    assert (secret == recorded[0], chance == recorded[1]) == (False, True)
    assert re.fullmatch(rb"[0-9a-f]{16}", secret)
    assert "random values that were redacted" in runs[0].err


def test_a_recorded_program_says_what_its_imports_derive_from(theatre: Theatre) -> None:
    theatre.write("prog.py", "print(1)\n")
    theatre.record("prog.py", name="a")
    theatre.record("prog.py", name="b")
    seeds = []
    for name in ("a", "b"):
        with reenact.open_recording(theatre.folder / name) as source:
            seeds.append(next(iter(source)).data["seed"])
    assert seeds[0] != seeds[1]


@pytest.mark.slow
def test_a_test_run_that_is_shuffled_and_seeded(theatre: Theatre) -> None:
    pytest.importorskip("pytest_randomly", reason="pytest-randomly is not installed")
    theatre.write("pytest.ini", "[pytest]\n")
    theatre.write(
        "test_it.py",
        """
        import random, uuid
        from hypothesis import given, settings, strategies as some

        def test_it():
            print("drew", random.random(), random.sample(range(99), 5), uuid.uuid4())

        @settings(max_examples=5, database=None)
        @given(some.integers())
        def test_that(number):
            assert isinstance(number, int)
        """,
    )
    words = (sys.executable, "-m", "pytest", "-qs", "-p", "pytest_randomly", "test_it.py")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p no:cacheprovider"}
    ran = [theatre.record(*words, **alone), theatre.replay(*words, **alone)]
    drew = [re.findall(rb"drew .*", one.out) for one in ran]
    assert [one.code for one in ran] == [0, 0], ran
    assert len(drew[0]) == 1
    assert drew[0] == drew[1]
