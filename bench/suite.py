"""A suite of tests with a cassette each, collected and run, against pytest-recording and without."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from bench.answers import serving
from bench.clients import ANSWER, HEADERS
from bench.measure import Row, Setting, at_least, at_most, fact, interleave, ratio
from bench.startup import environment

TITLE = "a suite of tests with a cassette each"

_PER_MODULE = 50

_MODULE = """\
import httpx
import pytest

ANSWER = {answer!r}
pytestmark = [{mark}]


@pytest.mark.parametrize("number", range({first}, {last}))
def test_an_answer(number):
    with httpx.Client({client}) as client:
        answer = client.post("{url}", json={{"number": number, "question": "what is it?"}})
    assert answer.status_code == 200
    assert answer.json()["choices"]
"""

_CANNED = "transport=httpx.MockTransport(lambda request: httpx.Response(200, content=ANSWER))"
_OVER_WIRE = "trust_env=False, verify=False"


@dataclass(frozen=True)
class Suite:
    """``plugins`` are all that pytest loads beside its own; ``record`` and ``replay`` are words."""

    mark: str = ""
    plugins: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    replay: tuple[str, ...] = ()
    cassettes: str = ""

    @property
    def is_canned(self) -> bool:
        return not self.cassettes


SUITES = {
    "bare": Suite(),
    "ours": Suite(
        mark="pytest.mark.reenact",
        plugins=("reenact.pytest_plugin",),
        record=("--reenact-mode=record",),
        cassettes="**/*.jsonl",
    ),
    "theirs": Suite(
        mark="pytest.mark.vcr(match_on=['method', 'uri', 'body'])",
        plugins=("pytest_recording.plugin",),
        record=("--record-mode=once",),
        replay=("--record-mode=none",),
        cassettes="**/*.yaml",
    ),
}


def run(setting: Setting) -> Iterator[Row]:
    missing = [name for name in ("pytest", "pytest_recording") if find_spec(name) is None]
    if missing:
        setting.say(f"skipped: {' and '.join(missing)} not installed")
        return
    count = setting.scaled(1_000)
    places = _prepare(setting, count)
    rounds = 2 if setting.quick else 5
    times = interleave(
        {name: _replaying(setting, name, place) for name, place in places.items()}, rounds
    )
    collected = interleave(
        {
            name: _replaying(setting, name, place, "--collect-only")
            for name, place in places.items()
        },
        rounds,
    )
    what = f"suite of {count:,} tests, a cassette each"
    yield ratio(f"{what}: pytest-recording / ours", times["theirs"], times["ours"], at_least(1))
    yield ratio(
        f"{what}: ours / the same tests with a canned transport", times["ours"], times["bare"]
    )
    for name, who in (("ours", "ours"), ("theirs", "pytest-recording")):
        pairs = zip(times[name], times["bare"], strict=True)
        added = [(with_it - bare) / count * 1e3 for with_it, bare in pairs]
        yield fact(f"{what}: {who} adds to a test", added, "ms", clock="cpu")
    name = f"{what}, collected only: ours / without a plugin"
    yield ratio(name, collected["ours"], collected["bare"], at_most(1.5))


def _prepare(setting: Setting, count: int) -> dict[str, Path]:
    """The folders of the suites; those with cassettes have been recorded."""
    places = {name: setting.folder / name for name in SUITES}
    answers = {"/chat": ([list(pair) for pair in HEADERS.items()], ANSWER)}
    with serving(setting.folder, answers) as address:
        for name, suite in SUITES.items():
            _write(places[name], suite, f"{address}/chat", count)
            if not suite.is_canned:
                _pytest(setting, places[name], suite, *suite.record)
                made = len(list(places[name].glob(suite.cassettes)))
                if made < count:
                    raise AssertionError(f"{name}: {made} cassettes of {count} tests")
    return places


def _write(place: Path, suite: Suite, url: str, count: int) -> None:
    place.mkdir()
    (place / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for first in range(0, count, _PER_MODULE):
        text = _MODULE.format(
            mark=suite.mark,
            first=first,
            last=min(first + _PER_MODULE, count),
            client=_CANNED if suite.is_canned else _OVER_WIRE,
            url=url,
            answer=ANSWER,
        )
        (place / f"test_part_{first:05d}.py").write_text(text, encoding="utf-8")


def _replaying(setting: Setting, name: str, place: Path, *words: str) -> Callable[[], float]:
    suite = SUITES[name]
    return lambda: _pytest(setting, place, suite, *suite.replay, *words)


def _pytest(setting: Setting, place: Path, suite: Suite, *words: str) -> float:
    """CPU seconds of a run in which every test has passed."""
    plugins = [word for name in suite.plugins for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins, *words]
    start = _used()
    done = subprocess.run(
        command,
        cwd=place,
        env=_environ(setting.folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stdout.decode("utf-8", "replace")[-4_000:])
    return _used() - start


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environ(folder: Path) -> Mapping[str, str]:
    """No plugin that happens to be installed, and not in CI, where nothing is recorded."""
    found = {name: value for name, value in environment(folder).items() if name != "CI"}
    return {
        **found,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "REENACT_CONFIG_DIR": str(folder / "config"),
    }
