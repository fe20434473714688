"""What is built of a class before threads decode it."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import msgspec
import pytest

from reenact.format.building import build_structs

SOURCE = """
import msgspec

class {name}(msgspec.Struct):
    x: "Kind"
"""


def made(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> Any:
    """A class whose field has a type that is gone soon: whoever needs it later cannot decode."""
    home = ModuleType(module)
    monkeypatch.setitem(sys.modules, module, home)
    vars(home)["Kind"] = int
    exec(SOURCE.format(name=name), vars(home))
    return vars(home)[name]


def test_ours_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = made(monkeypatch, "reenact.trial", "Ours")
    build_structs()
    del vars(sys.modules["reenact.trial"])["Kind"]
    assert msgspec.json.decode(b'{"x":1}', type=ours).x == 1


def test_those_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = made(monkeypatch, "elsewhere", "Theirs")
    build_structs()
    del vars(sys.modules["elsewhere"])["Kind"]
    with pytest.raises(NameError):
        msgspec.json.decode(b'{"x":1}', type=theirs)


def test_what_cannot_be_built_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(monkeypatch, "reenact.first", "First")
    del vars(sys.modules["reenact.first"])["Kind"]
    last = made(monkeypatch, "reenact.last", "Last")
    build_structs()
    assert msgspec.json.decode(b'{"x":2}', type=last).x == 2
    with pytest.raises(NameError):
        msgspec.json.decode(b'{"x":1}', type=first)


RACE = """
import sys, threading
import msgspec
from reenact.exchange.model import Exchange
from reenact.format.building import build_structs

build_structs()
sys.setswitchinterval(1e-6)
at_once = threading.Barrier(8)
wrong = []

def work():
    at_once.wait()
    try:
        msgspec.json.decode(b"{}", type=Exchange)
    except msgspec.ValidationError:
        wrong.append(1)

threads = [threading.Thread(target=work) for _ in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(len(wrong))
"""


def test_threads_that_decode_a_class_for_the_first_time_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "8\n")
