"""Laws of policy files and cassette paths."""

from __future__ import annotations

import json
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import PathRefused
from reenact.format.json_path import join, parse
from reenact.policy.files import lines_of, problems, read
from reenact.policy.paths import cassette_path, unsafe_reason
from reenact.policy.schema import FILES, schemas

SCHEMAS = {name.partition(".")[0]: json.loads(text) for name, text in schemas().items()}
VALIDATORS = {name: jsonschema.Draft202012Validator(one) for name, one in SCHEMAS.items()}

words = st.sampled_from(
    "default strict none lane lookup net.fetch tool.* $.a * *.a.com GET replay record block pass "
    "A_B sha256: x-header ci a/b".split()
) | st.text(max_size=5)
leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.just(0.5) | words
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)


def _names(name: str) -> list[str]:
    whole = SCHEMAS[name]
    parts = (whole, *whole.get("$defs", {}).values())
    return sorted({field for part in parts for field in part["properties"]})


@st.composite
def files(draw: st.DrawFn) -> tuple[str, Any]:
    """A kind of file, and something that looks a little like one."""
    name = draw(st.sampled_from(sorted(FILES)))
    fields = st.sampled_from(_names(name))
    part = st.dictionaries(fields, leaves | st.lists(leaves, max_size=2), max_size=3)
    inner = values | part | st.lists(part, max_size=2) | st.dictionaries(words, part, max_size=2)
    raw = draw(st.dictionaries(fields, inner, max_size=4))
    version = FILES[name][1]
    head: dict[str, Any] = {"schemaVersion": version, "id": "x", "policies": []}
    head |= {"schema_version": version, "tests": [{"id": "x", "entry": "a:b"}]}
    listed = name in ("index", "tests")  # there the ids are those of what is in the list
    known = [one for one in head if one in _names(name) and (one != "id" or not listed)]
    return name, {**{one: head[one] for one in known}, **raw}


@given(files())
def test_our_reader_msgspec_and_the_schema_agree(file: tuple[str, Any]) -> None:
    name, raw = file
    found = problems(raw, FILES[name][0])
    try:
        read(raw, FILES[name][0])
        built = True
    except msgspec.ValidationError:
        built = False
    assert built is (found == [])
    assert VALIDATORS[name].is_valid(raw) is built


names = st.lists(
    st.sampled_from(["a", "b.jsonl", "..", ".", "", "link", "in", ".reenact", "C:", "\\", "\0"])
    | st.text(max_size=4),
    min_size=1,
    max_size=4,
).map("/".join)


@given(names, st.booleans(), st.booleans())
def test_no_name_leads_out_of_the_folder(name: str, fixture: bool, writing: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        cassettes = root / ".reenact" / "cassettes"
        rr = root / "fixtures" / "rr"
        for base in (cassettes, rr):
            (base / "in").mkdir(parents=True)
            (base / "link").symlink_to(folder)
        try:
            path = cassette_path(
                root, name, fixture_root=root / "fixtures" if fixture else None, writing=writing
            )
        except PathRefused:
            return
        assert path.resolve().is_relative_to((rr if fixture else cassettes).resolve())
        assert path.suffix == ".jsonl"


@given(st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_every_value_of_a_file_has_a_line(value: Any) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    lines = text.split("\n")
    found = lines_of(text)
    assert set(found) == set(_places(value, ()))
    for place, line in found.items():
        step = parse(place)[-1:]
        if step and isinstance(step[0], str):
            assert lines[line - 1].lstrip().startswith(json.dumps(step[0], ensure_ascii=False))


def _places(value: Any, path: tuple[str | int, ...]) -> Iterator[str]:
    yield join(path)
    if isinstance(value, dict):
        steps: Iterable[tuple[str | int, Any]] = value.items()
    else:
        steps = enumerate(value) if isinstance(value, list) else ()
    for step, item in steps:
        yield from _places(item, (*path, step))


@given(names | st.text())
def test_a_safe_name_stays_safe_where_names_are_folded(name: str) -> None:
    if unsafe_reason(name) is None:
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            folded = unicodedata.normalize(form, name)
            for seen in (folded, folded.upper(), folded.casefold()):
                assert "\\" not in seen
                assert seen.count("/") == name.count("/")
                assert not {"", ".", ".."} & set(seen.split("/"))
                assert not [one for one in seen.lower().split("/") if one.startswith(".reenact")]
