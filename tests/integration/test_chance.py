"""Chance in a session: every way to draw it, who draws it, and what is written of it."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import random
import secrets
import statistics
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage
from os import urandom as imported_urandom
from pathlib import Path
from random import choice as imported_choice
from random import random as imported_random
from types import ModuleType
from typing import Any
from uuid import uuid4 as imported_uuid4

import pytest

import reenact
from reenact import rng
from reenact.errors import DivergenceError, PolicyRefused
from reenact.format.draw_runs import load_run
from reenact.format.event import Event
from reenact.policy.model import BoundaryRule, Policy


class Own(random.Random):
    """A generator of the program's own."""


def _shuffled(shuffle: Callable[[Any], None]) -> list[int]:
    found = list(range(30))
    shuffle(found)
    return found


def _made(**given: Any) -> str:
    handle, name = tempfile.mkstemp(**given)
    os.close(handle)
    os.remove(name)
    return name


def _mail() -> str:
    mail = EmailMessage()
    mail.set_content("plain")
    mail.add_alternative("<p>", subtype="html")
    return mail.as_string()


WAYS: dict[str, Callable[[], Any]] = {
    "random": lambda: random.random(),
    "imported random": lambda: imported_random(),
    "imported choice": lambda: imported_choice(range(10_000)),
    "randint": lambda: random.randint(1, 1_000_000),
    "randint beyond floats": lambda: random.randint(0, 1 << 200),
    "randrange": lambda: random.randrange(0, 1_000_000, 7),
    "choice": lambda: random.choice("abcdefghijklmnopqrstuvwxyz" * 9),
    "choices": lambda: random.choices(range(1000), k=5),
    "sample": lambda: random.sample(range(1000), 10),
    "shuffle": lambda: _shuffled(random.shuffle),
    "uniform": lambda: random.uniform(3, 4),
    "gauss": lambda: [random.gauss(5, 2) for _ in range(3)],
    "normalvariate": lambda: random.normalvariate(5, 2),
    "expovariate": lambda: random.expovariate(2.0),
    "betavariate": lambda: random.betavariate(1, 2),
    "triangular": lambda: random.triangular(),
    "getrandbits": lambda: [random.getrandbits(bits) for bits in (1, 53, 54, 64, 300)],
    "randbytes": lambda: random.randbytes(11),
    "many bytes": lambda: random.randbytes(3000),
    "state": lambda: random.getstate(),
    "a state set back": lambda: (random.setstate(random.getstate()), random.random()),
    "reseeded": lambda: (random.seed(), random.random()),
    "own": lambda: random.Random().random(),
    "own, seeded with nothing": lambda: random.Random(None).randbytes(4),
    "own, reseeded": lambda: _reseeded(random.Random(1)),
    "own subclass": lambda: Own().random(),
    "own of a state": lambda: _of_state(random.getstate()),
    "the operating system's": lambda: random.SystemRandom().random(),
    "the operating system's shuffle": lambda: _shuffled(random.SystemRandom().shuffle),
    "urandom": lambda: os.urandom(9),
    "no urandom": lambda: os.urandom(0),
    "imported urandom": lambda: imported_urandom(9),
    "getrandom": lambda: os.getrandom(7),
    "token_bytes": lambda: secrets.token_bytes(8),
    "token_hex": lambda: secrets.token_hex(),
    "token_urlsafe": lambda: secrets.token_urlsafe(20),
    "secrets.choice": lambda: secrets.choice(range(100_000)),
    "secrets.randbelow": lambda: secrets.randbelow(10**30),
    "secrets.randbits": lambda: secrets.randbits(90),
    "uuid1": lambda: (uuid.uuid1(), uuid.uuid1().is_safe),
    "uuid4": lambda: uuid.uuid4(),
    "imported uuid4": lambda: imported_uuid4(),
    "mkstemp": lambda: _made(prefix="p-", suffix=".s"),
    "mktemp": lambda: tempfile.mktemp(),
    "candidate names": lambda: [
        next(one)
        for one in [tempfile._get_candidate_names()]  # type: ignore[attr-defined]
        for _ in range(3)
    ],
    "of statistics": lambda: statistics.NormalDist(1, 2).samples(3),
    "of a mail": lambda: _mail(),
    "rng.random": lambda: rng.random(),
    "rng.shuffle": lambda: _shuffled(rng.shuffle),
    "rng.bytes": lambda: rng.bytes(5),
    "rng.gauss": lambda: rng.gauss(1, 2),
    "rng.uuid4": lambda: rng.uuid4(),
}


def _reseeded(generator: random.Random) -> float:
    generator.seed()
    return generator.random()


def _of_state(state: Any) -> float:
    generator = random.Random(1)
    generator.setstate(state)
    return generator.random()


def enact(path: Path, program: Callable[[], Any], **given: Any) -> list[Any]:
    """What ``program`` gave when it was recorded, and when it was replayed."""
    found = []
    for mode in ("record", "replay"):
        with reenact.session(capture=path, mode=mode, strict=True, **given):
            found.append(program())
    return found


def drawn(path: Path) -> list[tuple[str, str, int]]:
    """Lane, name and number of what was drawn, in the order of the recording."""
    with reenact.open_recording(path) as source:
        return [one for event in source for one in _columns(event)]


def _columns(event: Event) -> list[tuple[str, str, int]]:
    run = load_run(event.data)
    return [
        (event.lane, name.removeprefix("rng "), len(column))
        for name, column in zip(run.names, run.columns, strict=True)
    ]


@pytest.mark.parametrize("way", WAYS)
def test_what_was_drawn_is_drawn_again(way: str, tmp_path: Path) -> None:
    recorded, replayed = enact(tmp_path / "c", WAYS[way])
    assert replayed == recorded
    with reenact.open_recording(tmp_path / "c") as source:
        assert len(source) == 1


@pytest.mark.parametrize("profile", ["default", "strict", "none"])
def test_all_of_them_together_under_every_redaction(profile: str, tmp_path: Path) -> None:
    def program() -> list[Any]:
        return [draw() for _ in range(2) for draw in WAYS.values()]

    recorded, replayed = enact(tmp_path / "c", program, redaction=profile)
    assert replayed == recorded
    assert recorded[: len(WAYS)] != recorded[len(WAYS) :]


def test_seeded_generators_are_not_recorded_and_are_as_ever(tmp_path: Path) -> None:
    def program() -> Any:
        return random.Random(42).random(), Own("text").gauss(), _shuffled(random.Random(7).shuffle)

    alone = program()
    assert enact(tmp_path / "c", program) == [alone, alone]
    assert drawn(tmp_path / "c") == []


def test_the_shared_generator_gives_what_it_gives_without_us(tmp_path: Path) -> None:
    def program() -> Any:
        random.seed(42)
        found = [random.random(), random.gauss(), random.gauss(1, 2), random.randint(1, 1000)]
        return [*found, *_shuffled(random.shuffle), random.getstate()]

    alone = program()
    assert enact(tmp_path / "c", program) == [alone, alone]


def test_gauss_keeps_its_second_number_as_ever(tmp_path: Path) -> None:
    """They are made in pairs, and tasks of one program take turns."""

    async def one() -> float:
        return random.gauss()

    async def program() -> list[float]:
        random.seed(3)
        return list(await asyncio.gather(*(one() for _ in range(5))))

    alone = asyncio.run(program())
    assert enact(tmp_path / "c", lambda: asyncio.run(program())) == [alone, alone]


def test_a_draw_inside_a_draw_counts_once(tmp_path: Path) -> None:
    def program() -> None:
        random.gauss()
        uuid.uuid4()
        uuid.uuid1()
        tempfile.mktemp()
        rng.random()

    enact(tmp_path / "c", program)
    names = ["random.gauss", "uuid.uuid4", "uuid.uuid1", "tempfile.name", "random.random"]
    assert drawn(tmp_path / "c") == [("0", name, 1) for name in names]


def test_everything_of_the_shared_generator_is_made_of_a_few(tmp_path: Path) -> None:
    def program() -> None:
        random.shuffle(list(range(100)))
        random.sample(range(100), 3)
        random.choice("ab")
        random.choices("ab")
        random.vonmisesvariate(1, 2)
        random.paretovariate(1)
        random.weibullvariate(1, 2)
        random.lognormvariate(1, 2)
        random.gammavariate(1.5, 2)

    enact(tmp_path / "c", program)
    known = ("random.random", "random.getrandbits(")
    assert [one for one in drawn(tmp_path / "c") if not one[1].startswith(known)] == []


def test_numbers_that_are_no_numbers_are_refused_as_ever(tmp_path: Path) -> None:
    wrong: list[Callable[[], Any]] = [
        lambda: os.urandom(-1),
        lambda: os.urandom("1"),  # type: ignore[arg-type]
        lambda: random.getrandbits(-1),
        lambda: random.getrandbits(1.5),  # type: ignore[arg-type]
        lambda: random.seed([]),  # type: ignore[arg-type]
    ]

    def said() -> list[str]:
        found = []
        for one in wrong:
            with pytest.raises((TypeError, ValueError)) as caught:
                one()
            found.append(f"{type(caught.value).__name__}: {caught.value}")
        return found

    alone = said()
    assert enact(tmp_path / "c", said) == [alone, alone]
    assert drawn(tmp_path / "c") == []


# What differs


def test_a_draw_of_another_size_is_a_divergence(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        os.urandom(8)
    with (
        pytest.raises(DivergenceError, match=r"os\.urandom\(9\)"),
        reenact.session(capture=tmp_path / "c", mode="replay", strict=True),
    ):
        os.urandom(9)


def test_a_lenient_replay_makes_up_what_is_not_there(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        pass
    found = []
    for _ in range(2):
        with reenact.session(capture=tmp_path / "c", mode="replay", strict=False):
            found.append([draw() for way, draw in WAYS.items() if "state" not in way])
    assert found[0] == found[1]
    drawn_twice = [str(one) for one in found[0] if len(str(one)) > 9]
    assert len(set(drawn_twice)) == len(drawn_twice)


def test_made_up_values_are_of_the_right_kind(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        pass
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=False):
        assert 0 <= random.getrandbits(3) < 8
        assert random.getrandbits(5000).bit_length() <= 5000
        assert len(os.urandom(33)) == 33
        assert uuid.uuid4().version == 4
        assert uuid.uuid1().version == 1
        assert len(random.getstate()[1]) == 625


@pytest.mark.parametrize("way", ["random", "uuid4", "token_hex", "own", "mktemp"])
def test_the_policy_says_what_may_be_drawn(way: str, tmp_path: Path) -> None:
    blocks = Policy(id="p", boundaries=(BoundaryRule(capability="random", action="block"),))
    with (
        reenact.session(capture=tmp_path / "b", mode="record", policy=blocks),
        pytest.raises(PolicyRefused),
    ):
        WAYS[way]()
    passes = Policy(
        id="p",
        boundaries=(BoundaryRule(capability="random", action="pass"),),
        allow_passthrough=True,
    )
    recorded, replayed = enact(tmp_path / "p", WAYS[way], policy=passes)
    assert recorded != replayed
    assert drawn(tmp_path / "p") == []


# Whose draw it is


def foreign(name: str, file: str, text: str) -> Any:
    """A module as if it came from ``file``."""
    module = ModuleType(name)
    module.__file__ = file
    exec(text, vars(module))
    return module


LIBRARY = """
import os, random, secrets, tempfile, uuid

def draw():
    return [random.random(), random.gauss(), uuid.uuid4(), secrets.token_hex(4), os.urandom(3),
            random.Random().random(), tempfile.mktemp()]
"""
INSTALLED = "/x/site-packages/lib.py"


def test_what_a_library_draws_is_served_while_it_lasts(tmp_path: Path) -> None:
    library = foreign("some_library", INSTALLED, LIBRARY)

    def program() -> Any:
        return library.draw(), random.random()

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True):
        assert library.draw() == recorded[0]
        assert library.draw() != recorded[0]
        assert random.random() == recorded[1]


def test_what_plumbing_draws_is_not_recorded(tmp_path: Path) -> None:
    client = foreign("httpx.own", "/x/site-packages/httpx/own.py", LIBRARY)

    def program() -> Any:
        return client.draw(), random.random()

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed[0] != recorded[0]
    assert replayed[1] == recorded[1]
    assert drawn(tmp_path / "c") == [("0", "random.random", 1)]


def test_live_calls_draw_for_themselves(tmp_path: Path) -> None:
    def program() -> Any:
        session = reenact.current()
        assert session is not None
        answer = session.call("f", {}, lambda: random.random(), capability="net.fetch")
        return answer, random.random()

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded
    with reenact.open_recording(tmp_path / "c") as source:
        assert [event.data["source"] for event in source] == ["network", "rng"]


def test_a_tool_that_is_not_run_shifts_nothing(tmp_path: Path) -> None:
    def program() -> Any:
        session = reenact.current()
        assert session is not None
        found = session.call("tool", {}, lambda: [random.random(), os.urandom(2).hex()])
        return found, random.random(), uuid.uuid4(), random.gauss()

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded
    assert {lane for lane, *_ in _in_lanes(tmp_path / "c")} == {"0", "0.1"}


def _in_lanes(path: Path) -> list[tuple[str, str]]:
    with reenact.open_recording(path) as source:
        return [(e.lane, e.data["key"]) for e in source if e.data.get("source") == "rng"]


def test_threads_do_not_shift_each_other(tmp_path: Path) -> None:
    def program() -> Any:
        found: dict[int, Any] = {}
        threads = [threading.Thread(target=work, args=(n, found)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def work(number: int, found: dict[int, Any]) -> None:
        found[number] = [
            [random.random(), random.gauss(), uuid.uuid4(), secrets.token_hex(3)]
            for _ in range(number + 1)
        ]

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded


def test_what_is_handed_over_to_a_thread_is_the_programs_own(tmp_path: Path) -> None:
    def program() -> Any:
        deck = list(range(40))
        with ThreadPoolExecutor(3) as pool:
            found = [*pool.map(random.choice, [range(10**6)] * 5), pool.submit(uuid.uuid4).result()]
        thread = threading.Thread(target=random.shuffle, args=(deck,))
        thread.start()
        thread.join()
        return found, deck, asyncio.run(later())

    async def later() -> Any:
        return await asyncio.to_thread(random.random)

    recorded, replayed = enact(tmp_path / "c", program)
    assert replayed == recorded


def test_tasks_do_not_shift_each_other(tmp_path: Path) -> None:
    async def work(number: int) -> list[Any]:
        found = []
        for _ in range(number):
            found.append((random.random(), random.sample(range(50), 4), uuid.uuid1()))
            await asyncio.sleep(0)
        return found

    async def program() -> list[Any]:
        return list(await asyncio.gather(*map(work, range(5))))

    recorded, replayed = enact(tmp_path / "c", lambda: asyncio.run(program()))
    assert replayed == recorded


# What is left behind


def test_all_is_as_it_was_after_the_session(tmp_path: Path) -> None:
    places: list[tuple[Any, str]] = [
        *((random, name) for name in vars(random)),
        (random.Random, "seed"),
        (os, "urandom"),
        (os, "getrandom"),
        (uuid, "uuid1"),
        (uuid, "uuid4"),
        (tempfile, "_get_candidate_names"),
        *((sys.modules[__name__], name) for name in globals() if name.startswith("imported")),
    ]
    before = [vars(owner)[name] for owner, name in places]
    enact(tmp_path / "c", lambda: [draw() for draw in WAYS.values()])
    assert [
        name
        for (owner, name), old in zip(places, before, strict=True)
        if vars(owner)[name] is not old
    ] == []
    assert type(random._inst) is random.Random


def test_generators_can_be_copied_and_pickled_in_a_session(tmp_path: Path) -> None:
    shared: Any = random._inst
    with reenact.session(capture=tmp_path / "c", mode="record"):
        assert isinstance(shared, random.Random)
        copies = [copy.copy(shared), copy.deepcopy(shared), pickle.loads(pickle.dumps(shared))]
        assert {type(one) for one in copies} == {random.Random}
        assert len({one.random() for one in copies}) == 1
        own = random.Random()
        assert pickle.loads(pickle.dumps(own)).random() == own.random()
        assert pickle.loads(pickle.dumps(os.urandom)) is not None


def test_without_a_session_nothing_is_replaced() -> None:
    assert type(random._inst) is random.Random
    assert [type(rng.random()), type(rng.uuid4()), len(rng.bytes(3))] == [float, uuid.UUID, 3]
    random.seed(5)
    expected = [random.random(), random.gauss(0, 1), random.randint(1, 10**9)]
    random.seed(5)
    assert [rng.random(), rng.gauss(0, 1), rng.randint(1, 10**9)] == expected


def test_recorded_chance_is_as_even_as_any(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        found = [random.random() for _ in range(5000)]
        dice = [random.randint(1, 6) for _ in range(5000)]
    assert 0.4 < statistics.fmean(found) < 0.6
    assert {*dice} == {1, 2, 3, 4, 5, 6}


def test_a_file_without_a_name_draws_none(tmp_path: Path) -> None:
    def program() -> bytes:
        with tempfile.TemporaryFile(dir=tmp_path) as file:
            file.write(b"x")
            return bytes([file.tell()])

    assert enact(tmp_path / "c", program) == [b"\x01", b"\x01"]
    assert drawn(tmp_path / "c") == []


def test_names_that_are_taken_in_the_replay_are_new_and_said(tmp_path: Path) -> None:
    said: list[str] = []

    def program() -> str:
        return tempfile.mkdtemp(dir=tmp_path)

    with reenact.session(capture=tmp_path / "c", mode="record"):
        left = program()
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True, warn=said.append):
        found = program()
    assert Path(found).is_dir()
    assert found != left
    assert len(said) == 1
    assert f"the temporary name {Path(left).name.removeprefix('tmp')} exists already" in said[0]


def test_without_the_key_secrets_are_made_up_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program() -> list[Any]:
        return [secrets.token_hex(8), random.random(), os.urandom(5), secrets.token_hex(8)]

    with reenact.session(capture=tmp_path / "c", mode="record"):
        recorded = program()
    monkeypatch.setenv("REENACT_CONFIG_DIR", str(tmp_path / "elsewhere"))
    found: list[Any] = []
    said: list[str] = []
    for _ in range(2):
        with reenact.session(capture=tmp_path / "c", mode="replay", strict=True, warn=said.append):
            found.append(program())
    assert found[0] == found[1]
    assert [a == b for a, b in zip(found[0], recorded, strict=True)] == [False, True, False, False]
    assert len({str(one) for one in found[0]}) == 4
    assert [len(str(one)) for one in found[0][::3]] == [16, 16]
    assert len(said) == 2
    assert "random values that were redacted" in said[0]


def test_a_single_secret_without_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        secrets.token_hex(8)
    monkeypatch.setenv("REENACT_CONFIG_DIR", str(tmp_path / "elsewhere"))
    said: list[str] = []
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True, warn=said.append):
        assert len(secrets.token_bytes(8)) == 8
    assert len(said) == 1


def test_more_is_added_to_what_was_drawn(tmp_path: Path) -> None:
    def program(count: int) -> list[Any]:
        return [(random.random(), secrets.token_hex(4)) for _ in range(count)]

    with reenact.session(capture=tmp_path / "c", mode="record"):
        first = program(2)
    with reenact.session(capture=tmp_path / "c", mode="record_missing"):
        more = program(4)
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True):
        again = program(4)
    assert more[:2] == first
    assert again == more


@pytest.mark.parametrize("seed", [1, 2])
def test_a_runner_of_tests_may_seed_what_it_likes(seed: int, tmp_path: Path) -> None:
    runner = foreign("pytest_randomly", "/x/site-packages/pytest_randomly/__init__.py", _RUNNER)
    found = []
    for mode in ("record", "replay"):
        with reenact.session(capture=tmp_path / "c", mode=mode, strict=True):
            runner.begin(seed if mode == "record" else seed + 10)
            found.append([random.random(), random.randint(1, 1000)])
            runner.end()
    assert found[0] == found[1]


_RUNNER = """
import random

def begin(seed):
    global state
    state = random.getstate()
    random.seed(seed)

def end():
    random.setstate(state)
"""


def test_hypothesis_keeps_working_in_a_session(tmp_path: Path) -> None:
    from hypothesis import given, settings
    from hypothesis import strategies as some

    seen: list[tuple[int, float]] = []

    @settings(max_examples=20, database=None, derandomize=True)
    @given(some.integers(), some.randoms())
    def examine(number: int, chance: random.Random) -> None:
        seen.append((number, chance.random()))

    with reenact.session(capture=tmp_path / "c", mode="record"):
        examine()
        own = random.random()
    first = list(seen)
    seen.clear()
    with reenact.session(capture=tmp_path / "c", mode="replay", strict=True):
        examine()
        assert random.random() == own
    assert seen == first
    assert len(seen) >= 20
