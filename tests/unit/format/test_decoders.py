"""What is built of a class before threads decode it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import reenact
from reenact.format.decoders import build_all_decoders

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
    build_all_decoders()
    del vars(sys.modules["reenact.trial"])["Kind"]
    assert msgspec.json.decode(b'{"x":1}', type=ours).x == 1


def test_those_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = made(monkeypatch, "elsewhere", "Theirs")
    build_all_decoders()
    del vars(sys.modules["elsewhere"])["Kind"]
    with pytest.raises(NameError):
        msgspec.json.decode(b'{"x":1}', type=theirs)


def test_what_cannot_be_built_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = made(monkeypatch, "reenact.first", "First")
    del vars(sys.modules["reenact.first"])["Kind"]
    last = made(monkeypatch, "reenact.last", "Last")
    build_all_decoders()
    assert msgspec.json.decode(b'{"x":2}', type=last).x == 2
    with pytest.raises(NameError):
        msgspec.json.decode(b'{"x":1}', type=first)


RACE = """
import sys, threading
import reenact
from reenact.exchange.model import Exchange
from reenact.format.decoders import build_all_decoders
import msgspec

def exchange():
    try:
        msgspec.json.decode(b"{}", type=Exchange)
    except msgspec.ValidationError:
        done.append(1)

def recording():
    with reenact.open_recording(sys.argv[1]) as opened:
        done.append(len(list(opened)))

def work():
    at_once.wait()
    exchange() if sys.argv[1] == "exchange" else recording()

if sys.argv[1] == "exchange":
    build_all_decoders()
sys.setswitchinterval(1e-6)
at_once, done = threading.Barrier(8), []
threads = [threading.Thread(target=work) for _ in range(8)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(len(done))
"""


@pytest.mark.parametrize("what", ["exchange", "recording"])
def test_threads_that_decode_for_the_first_time_at_once(what: str, tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "run", mode="record", seal=False):
        pass
    named = what if what == "exchange" else str(tmp_path / "run")
    command = [sys.executable, "-c", RACE, named]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "8\n"), done.stderr
