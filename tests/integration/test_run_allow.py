"""``--allow NAME`` in a replay of a recording that was made without it."""

from __future__ import annotations

import json

import pytest

from tests.integration.running import Ran, Theatre

pytestmark = pytest.mark.slow

PROGRAM = """
    import json, os, random, subprocess, sys, time
    from urllib.request import urlopen
    from ask import ask

    CHILD = "from ask import ask; print(ask('/json?child'))"

    def pieces(path):
        with urlopen(os.environ["SERVER"] + path) as answer:
            return [line.decode() for line in answer]

    before = [time.time_ns(), random.random(), time.time_ns(), random.random()]
    shell = subprocess.check_output("echo $$", shell=True, text=True)
    between = [random.random(), time.time_ns(), random.random(), random.random()]
    asked = [ask("/json?one"), pieces("/lines?count=3"), ask("/json?two")]
    after = [time.time_ns(), random.random()]
    child = subprocess.check_output([sys.executable, "-c", CHILD], text=True)
    drawn = [*before, *between, *after]
    told = {
        "clock": [one for one in drawn if isinstance(one, int)],
        "rng": [one for one in drawn if isinstance(one, float)],
        "process": shell,
        "network": asked,
        "child": child,
    }
    print(json.dumps(told))
"""

_ANEW = {
    "clock": ("clock", "passed through time.now"),
    "rng": ("rng", "passed through random"),
    "process": ("process", "passed through process.exec"),
    "network": ("network", "3 passed through net.fetch GET"),
}
"""What is another one this time, by the name that is let through, and what is said about it."""


@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", _ANEW)
def test_what_was_recorded_and_is_let_through_is_not_missing(name: str, theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    recorded = theatre.record("program.py")
    words = ("--replay", "c", "--strict", "--allow", name, "--", "python", "program.py")
    replayed = theatre.run(*words)
    assert replayed.code == 0, replayed.err
    before, after = _told(recorded), _told(replayed)
    differs, said = _ANEW[name]
    assert [key for key in before if before[key] != after[key]] == [differs]
    assert "0 unused" in replayed.summary
    assert said in replayed.summary


def test_the_rest_is_held_to_the_recording(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    theatre.record("program.py")
    theatre.write("program.py", PROGRAM.replace("one", "another", 1))
    connections = theatre.server.connections
    replayed = theatre.run(
        "--replay", "c", "--allow", "clock", "--allow", "process", "--", "python", "program.py"
    )
    assert replayed.code == 1
    assert "event_payload_mismatch" in replayed.err
    assert theatre.server.connections == connections


def _told(ran: Ran) -> dict[str, object]:
    told: dict[str, object] = json.loads(ran.out)
    return told
