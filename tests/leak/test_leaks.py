"""Secrets of every kind in every place: none is in any file, in any warning, in any exception."""

from __future__ import annotations

import itertools
import lzma
import math
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reenact import Draft, Redactor, ReenactError, ValueRefused, open_recording, verify
from reenact.format.canonical import digest
from reenact.policy.redaction.redactor import PLACEHOLDER, Profile
from reenact.policy.redaction.tokens import SHAPES as DECLARED_SHAPES
from reenact.store.pack import pack
from reenact.store.recording import make_seed
from reenact.store.seal import Seal, read_sealed, restore
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.tape import TapeSink
from tests.clocks import start_clock
from tests.conftest import SOAK
from tests.leak.places import BY_NAME, FREE, every_split
from tests.leak.planted import NAMES, SHAPES, Plant, known_value, plant_name, plant_shape
from tests.leak.search import Planted, decoded, leaks

pytestmark = pytest.mark.thinned(2)

KEY = bytes(range(32))
KNOWN = ("declared", "env")
CONTAINERS = ["sealed directory", "directory", "tape.jsonl"]
PARTS = 1 if SOAK else 3
"""In `make test` every third secret is in each place, and every secret in every third place."""


def _drafts(value: Any) -> Iterator[Draft]:
    """The value as what a tool was given, what it gave back, and what came from the network."""
    call = {"name": "f", "args": {"x": value}, "callId": "c"}
    yield Draft(type="tool_call", data=call, ts=1, op="a")
    yield Draft(type="tool_result", data={"callId": "c", "ok": True, "result": value}, ts=1, op="b")
    network = {"source": "network", "key": "k", "valueHash": "h", "response": {"body": value}}
    yield Draft(type="nondeterministic", data=network, ts=1, op="c")
    answer = {"provider": "p", "model": "m", "stopReason": None, "usage": None, "response": [value]}
    yield Draft(type="llm_response", data=answer, ts=1, op="d")


def _all_planted() -> Iterator[Planted]:
    turn = itertools.count()
    for number, (place, make) in enumerate(FREE.items()):
        plants = [
            *(plant_shape(kind, place) for kind in SHAPES),
            *(known_value(kind, place) for kind in KNOWN),
        ]
        for plant in plants[number % PARTS :: PARTS]:
            draft = list(_drafts(make(plant.text)))[next(turn) % 4]
            yield Planted(f"{plant.kind} {place}", draft, [plant])
    for number, (place, make_named) in enumerate(BY_NAME.items()):
        for name in list(NAMES)[number % PARTS :: PARTS]:
            plant = plant_name(name, place)
            draft = list(_drafts(make_named(name, plant.text)))[next(turn) % 4]
            yield Planted(f"{name} {place}", draft, [plant])


ALL = list(_all_planted())
TOO_CAREFUL = {"shape.odbc between brackets"}
"""Withheld though everything was found: the bracket behind the placeholder looks like part of it."""


def _redactor(profile: Profile) -> Redactor:
    known = [known_value("declared", place) for place in (*FREE, *EXTRA_PLACES)]
    environ = {
        f"SERVICE_{number}_TOKEN": known_value("env", place).text
        for number, place in enumerate((*FREE, *EXTRA_PLACES))
    }
    return Redactor(profile, declared=[plant.text for plant in known], environ=environ)


EXTRA_PLACES = ("as a key", "beside a bad value", "in the end", "in long text", "at every offset")
_redactors: dict[str, Redactor] = {}


def _shared_redactor(profile: Profile) -> Redactor:
    if profile not in _redactors:
        _redactors[profile] = _redactor(profile)
    return _redactors[profile]


class Recorder:
    """A real sink, with everything it says kept."""

    def __init__(self, folder: Path, container: str, profile: Profile, **options: Any) -> None:
        self.folder = folder
        self.path = folder / ("tape.jsonl" if container == "tape.jsonl" else "capture")
        self.warnings: list[str] = []
        redactor = _shared_redactor(profile)
        self.is_sealed = container == "sealed directory"
        seal = Seal(KEY) if self.is_sealed else None
        chosen = Options(
            redactor=redactor, seal=seal, durability="none", warn=self.warnings.append, **options
        )
        tape = container == "tape.jsonl"
        clock = start_clock()
        self.sink = (TapeSink if tape else DirectorySink)(self.path, clock=clock, options=chosen)
        log = "tape" if tape else "events.jsonl"
        self.sink.start(make_seed(clock=clock, redactor=redactor, log=log))

    def everything(self) -> bytes:
        """Every byte below the folder, names included; what is encoded or packed is decoded, too."""
        packed = self.folder / "packed"
        pack(self.path, packed)
        parts: list[bytes] = ["\n".join(self.warnings).encode()]
        for file in sorted(self.folder.rglob("*")):
            parts.append(str(file.relative_to(self.folder)).encode())
            if file.is_file():
                content = file.read_bytes()
                parts += (content, *decoded(content))
        unpacked = lzma.decompress(packed.read_bytes())
        parts += (unpacked, *decoded(unpacked))
        return b"\n".join(parts)


def test_there_is_a_secret_for_every_shape_that_is_declared() -> None:
    assert {shape.id for shape in DECLARED_SHAPES} == set(SHAPES)


def test_the_search_finds_what_is_not_redacted(tmp_path: Path) -> None:
    """The other tests would pass if the search were blind."""
    path = tmp_path / "capture"
    clock = start_clock()
    redactor = Redactor("none")
    sink = DirectorySink(path, clock=clock, options=Options(redactor=redactor, seal=None))
    sink.start(make_seed(clock=clock, redactor=redactor, log="events.jsonl"))
    for each in ALL:
        sink.append(each.draft)
    sink.finalize()
    found = b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
    found += b"\n".join(decoded(found))
    # A stream that is cut into pieces hides its secret from a search; so does base64 in a blob.
    hidden = {each.place for each in ALL} - set(leaks(found, ALL))
    assert all("stream" in place for place in hidden), hidden


COMBINATIONS: list[tuple[str, Profile]] = [
    ("sealed directory", "default"),
    ("sealed directory", "strict"),
    ("directory", "default"),
    ("tape.jsonl", "default"),
    ("tape.jsonl", "strict"),
]


@pytest.fixture(scope="module")
def make_full(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Profile], Recorder]:
    """Each is made once, in whatever order the tests of this module come."""

    @cache
    def make(container: str, profile: Profile) -> Recorder:
        recorder = Recorder(tmp_path_factory.mktemp("full"), container, profile)
        for each in ALL:
            recorder.sink.append(each.draft)
        recorder.sink.finalize()
        return recorder

    return make


@pytest.fixture(params=COMBINATIONS, ids=lambda pair: " ".join(pair))
def full(request: pytest.FixtureRequest, make_full: Callable[[str, Profile], Recorder]) -> Recorder:
    """A finished recording of everything that can be planted."""
    return make_full(*request.param)


def test_no_secret_is_in_any_file(full: Recorder) -> None:
    verify(full.path)
    assert leaks(full.everything(), ALL) == []


def test_what_is_not_secret_is_still_there(full: Recorder) -> None:
    """Withholding everything would keep every secret, too."""
    withheld: list[str] = []
    with open_recording(full.path) as source:
        for each, event in zip(ALL, source, strict=True):
            if "withheld" in event.data:
                withheld.append(each.place)
            else:
                assert "REDACTED" in event.payload.decode() or b"$bytes" in event.payload
    assert set(withheld) <= TOO_CAREFUL
    assert len(full.warnings) == len(withheld)


def test_with_the_key_the_program_gets_what_it_received_and_without_it_a_placeholder(
    full: Recorder,
) -> None:
    boxes: dict[int, list[Any]] = {}
    for box in read_sealed(full.path / "sealed"):
        boxes.setdefault(box.seq, []).append(box)
    assert bool(boxes) is full.is_sealed
    wrong: list[str] = []
    with open_recording(full.path) as source:
        for each, event in zip(ALL, source, strict=True):
            mine = boxes.get(event.seq, [])
            if "redacted" not in event.data:
                assert mine == []
                assert each.draft.type == "tool_call" or "withheld" in event.data
                continue
            with_key = restore(event, mine, Seal(KEY))
            if full.is_sealed and (
                _said(with_key.data) != _said(each.draft.data) or with_key.absent
            ):
                wrong.append(each.place)
            if "valueHash" in event.data:
                assert event.data["valueHash"] == digest(event.data["response"]), each.place
            for seal in (None, Seal(bytes(32))):
                without = restore(event, mine, seal)
                assert without.data == event.data
                assert list(without.absent) == event.data["redacted"]
    assert wrong == []


def _said(data: dict[str, Any]) -> dict[str, Any]:
    """Without what is written about it."""
    return {name: item for name, item in data.items() if name not in ("redacted", "valueHash")}


SPLIT = ("shape.openai", "shape.github", "shape.jwt", "shape.bearer", "shape.pem", "shape.aws")


@pytest.mark.parametrize("kind", [*SPLIT, *KNOWN])
def test_a_secret_split_at_any_offset_of_a_stream_is_found(kind: str, tmp_path: Path) -> None:
    make = known_value if kind in KNOWN else plant_shape
    plant = make(kind, "at every offset")
    recorder = Recorder(tmp_path, "sealed directory", "default")
    splits = every_split(plant.text)
    for split in splits:
        recorder.sink.append(next(_drafts(split)))
    single = {"chunks": list(f"<{plant.text}>")}
    recorder.sink.append(next(_drafts(single)))
    recorder.sink.finalize()
    with open_recording(recorder.path) as source:
        joined = ["".join(event.data["args"]["x"]["chunks"]) for event in source]
    assert len(joined) == len(splits) + 1
    for text in joined:
        for start in range(len(plant.cores[0]) - 5):
            assert plant.cores[0][start : start + 6] not in text
        assert PLACEHOLDER in text
    assert recorder.warnings == []


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_secret_in_a_payload_that_becomes_a_blob_is_found(container: str, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, container, "default")
    filler = "Nothing to see here, only words. " * 3_000
    planted: list[Planted] = []
    for plant in _few("in long text"):
        for value in (
            f"{filler}{plant.text} {filler}",
            f"{filler}{plant.text} and more {filler}",  # stored as a delta on the one before
            {"a": [filler, {"b": f"{filler}\n{plant.text}"}]},
            f"{filler}{plant.text}".encode(),
        ):
            draft = list(_drafts(value))[len(planted) % 4]
            recorder.sink.append(draft)
            planted.append(Planted(plant.kind, draft, [plant]))
    assert recorder.sink.finalize().blobs.count > 0
    verify(recorder.path)
    assert leaks(recorder.everything(), planted) == []


def _few(place: str) -> list[Plant]:
    return [
        *(plant_shape(kind, place) for kind in SPLIT),
        *(known_value(kind, place) for kind in KNOWN),
    ]


def _one_of_each(place: str) -> list[Plant]:
    return [
        *(plant_shape(kind, place) for kind in SHAPES),
        *(known_value(kind, place) for kind in KNOWN),
    ]


@pytest.mark.parametrize("profile", ["default", "strict"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_secret_as_a_key_is_withheld_and_named_to_nobody(
    container: str, profile: Profile, tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path, container, profile)
    planted: list[Planted] = []
    for plant in _one_of_each("as a key"):
        for draft in _drafts({plant.text: {"password": "x" * 9}, "z": {plant.text: 1}}):
            recorder.sink.append(draft)
            planted.append(Planted(plant.kind, draft, [plant]))
    recorder.sink.finalize()
    verify(recorder.path)
    assert leaks(recorder.everything(), planted) == []


class _Odd:
    """Not a JSON value, and says so loudly."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def __repr__(self) -> str:
        return self._secret

    __str__ = __repr__


BAD: dict[str, Callable[[str], Any]] = {
    "beside not a number": lambda s: {"a": s, "b": math.nan},
    "around not a number": lambda s: {s: {"b": math.nan}},
    "around half a surrogate pair": lambda s: {s: "\ud800"},
    "with half a surrogate pair": lambda s: s + "\ud800",
    "with half a surrogate pair as key": lambda s: {s + "\ud800": 1},
    "an object that shows it": _Odd,
    "in a key of bytes": lambda s: {s.encode(): 1},
    "in a key that is a tuple": lambda s: {(s, 1): 1},
    "in a key that is an object": lambda s: {_Odd(s): 1},
    "around too many levels": lambda s: _deep({s: 1}, s),
    "in a set": lambda s: {s},
    "in an endless number": lambda s: {s: 10**5_000},
}


def _deep(value: Any, key: str) -> Any:
    for _ in range(205):
        value = {key: value}
    return value


@pytest.mark.parametrize("profile", ["default", "strict"])
@pytest.mark.parametrize("what", BAD)
def test_no_secret_is_in_the_text_of_an_exception(
    what: str, profile: Profile, tmp_path: Path
) -> None:
    recorder = Recorder(tmp_path, "sealed directory", profile)
    found: list[str] = []
    for plant in _few("beside a bad value"):
        for draft in _drafts(BAD[what](plant.text)):
            with pytest.raises(ValueRefused) as caught:
                recorder.sink.append(draft)
            said = _everything_said(caught.value)
            found += leaks(said.encode("utf-8", "replace"), [Planted(plant.kind, draft, [plant])])
    assert found == []
    recorder.sink.finalize()
    verify(recorder.path)


def _everything_said(error: ReenactError) -> str:
    own = traceback.TracebackException.from_exception(error, capture_locals=False)
    whole = "".join(own.format())
    # The lines of this file quote the test, not the library.
    return "\n".join([str(error), repr(error), error.hint, str(error.to_json()), whole])


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_secret_in_the_error_of_the_run_is_not_in_the_manifest(
    container: str, tmp_path: Path
) -> None:
    found: list[str] = []
    for plant in _one_of_each("in the end"):
        folder = tmp_path / plant.kind
        folder.mkdir()
        recorder = Recorder(folder, container, "default")
        recorder.sink.finalize("error", f"cannot log in with {plant.text} here")
        assert "cannot log in with" in str(verify(recorder.path).manifest.error)
        written = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
        found += leaks(written, [Planted(plant.kind, ALL[0].draft, [plant])])
    assert found == []
