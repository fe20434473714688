"""Laws of keys: what counts, what does not, and that it does not depend on anything else."""

from __future__ import annotations

import copy
import re
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from reenact.format.canonical import canonical
from reenact.format.json_path import Path, join
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction.redactor import Redactor
from reenact.policy.volatile import KINDS
from tests.property.values import NAMES, VALUES

# Pieces that touch each other in every order: digits, dashes and colons next to whole matches.
PIECES = st.sampled_from(
    [
        "2024-05-01T10:11:12.5Z",
        "2024-05-01 10:11",
        "Wed, 01 May 2024 10:11:12 GMT",
        "1 May 2024 10:11",
        "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        "12.3ms",
        "5 seconds",
        "PT1.5S",
        "0:00:01.5",
        '"ts": 5',
        '\\"tookMs\\":1e5',
        "'elapsed':-1.5",
        "password=hunter2",
        "Bearer A1b2C3d4E5f6G7h8",
        "***REDACTED:0123456789ab***",
        "***REDACTED***",
        "<uuid>",
        "0",
        "7",
        "-",
        ":",
        ".",
        " ",
        "Z",
        "s",
        "e",
        "}",
        ",",
        "&t=1",
        "?",
    ]
)
TEXTS = st.lists(PIECES, max_size=6).map("".join)
FIELDS = st.one_of(
    st.sampled_from(["headers", "query", "url", "ts", "tookMs", "id", "api_key", "chunks"]), NAMES
)
LEAVES = st.one_of(TEXTS, TEXTS.map(str.encode), VALUES)
PAIRS = st.lists(st.tuples(st.sampled_from(["X-Id", "x-id", "t", "Cookie"]), TEXTS), max_size=3)
INSIDE = st.recursive(
    st.one_of(LEAVES, PAIRS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(FIELDS, inner, max_size=4)
    ),
    max_leaves=8,
)
REQUESTS = st.dictionaries(FIELDS, INSIDE, max_size=4)
RULES = st.builds(
    Rules,
    st.lists(
        st.sampled_from(["$.id", "$..id", "$.*[0]", "$..[1]", "$.headers", "$..ts"]), max_size=3
    ).map(tuple),
    st.sampled_from([(), ("X-ID",)]),
    st.sampled_from([(), ("t",)]),
    st.sets(st.sampled_from(KINDS)).map(sorted).map(tuple),
)
REDACTORS = st.builds(
    Redactor,
    st.sampled_from(["none", "default", "strict"]),
    salt=st.sampled_from([None, b"salt"]),
)
COMPARERS = st.builds(Comparer, RULES, REDACTORS)


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(value)}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def _turned(value: Any) -> Any:
    """The same fields, with each other's values."""
    if isinstance(value, dict):
        values = reversed(list(map(_turned, value.values())))
        return dict(zip(value, values, strict=True))
    return [_turned(item) for item in reversed(value)] if isinstance(value, list) else value


@given(COMPARERS, REQUESTS, REQUESTS)
def test_the_key_is_that_of_what_is_compared(one: Comparer, left: Any, right: Any) -> None:
    for other in (right, copy.deepcopy(left), one.normal(left)):
        same = canonical(one.normal(left)) == canonical(one.normal(other))
        assert (one.key(left) == one.key(other)) == same


@given(COMPARERS, REQUESTS)
def test_the_order_of_fields_does_not_matter(one: Comparer, request: Any) -> None:
    assert one.key(_reversed(request)) == one.key(request)
    assert one.applied(_reversed(request), request) == ()


@given(RULES, REDACTORS, REQUESTS)
def test_the_order_of_rules_does_not_matter(rules: Rules, redactor: Redactor, request: Any) -> None:
    backwards = Rules(
        rules.ignore_paths[::-1],
        rules.ignore_headers[::-1],
        rules.ignore_query[::-1],
        rules.volatile[::-1],
    )
    assert Comparer(backwards, redactor).key(request) == Comparer(rules, redactor).key(request)


@given(RULES, REQUESTS)
def test_what_is_compared_is_compared_as_it_is(rules: Rules, request: Any) -> None:
    # Without redaction, which may find more in a text that a constant stands in.
    one = Comparer(rules, Redactor("none"))
    normal = one.normal(request)
    assert canonical(one.normal(normal)) == canonical(normal)


@given(RULES, REDACTORS, REQUESTS)
def test_a_recorded_request_has_the_key_of_the_one_that_was_asked(
    rules: Rules, redactor: Redactor, request: Any
) -> None:
    one = Comparer(rules, redactor)
    assert one.key(redactor.redact(request).value) == one.key(request)


def _paths(value: Any, path: Path = ()) -> list[Path]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(deep for step, item in inner for deep in _paths(item, (*path, step)))]


def _replaced(value: Any, path: Path, new: Any) -> Any:
    changed = copy.deepcopy(value)
    here = changed
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = new
    return changed


@given(st.data(), REQUESTS, INSIDE)
def test_what_stands_at_an_ignored_path_never_counts(
    data: st.DataObject, request: Any, new: Any
) -> None:
    places = [path for path in _paths(request) if path]
    assume(places)
    path = data.draw(st.sampled_from(places))
    # Names must not hide anything by themselves, or a leaf would count less than it does.
    one = Comparer(Rules(ignore_paths=(join(path),)), Redactor("none"))
    assert one.key(_replaced(request, path, new)) == one.key(request)


@given(COMPARERS, REQUESTS, REQUESTS)
def test_rules_without_which_they_would_differ_are_named(
    one: Comparer, left: Any, right: Any
) -> None:
    plain = Comparer(Rules(), one._redactor)
    assert plain.applied(left, right) == ()
    for other in (right, one.normal(left), _turned(left)):
        if one.key(left) == one.key(other) and plain.key(left) != plain.key(other):
            assert one.applied(left, other) != ()


@given(RULES, st.from_regex(re.compile(r"[A-Za-z0-9]{12,40}"), fullmatch=True))
def test_another_credential_has_the_same_key(rules: Rules, credential: str) -> None:
    one = Comparer(rules, Redactor("default", salt=b"salt"))

    def request(secret: str) -> dict[str, Any]:
        return {
            "url": f"https://example.com/?t=1&access_token={secret}",
            "headers": [["authorization", f"Bearer {secret}"], ["x-id", "1"]],
            "args": {"api_key": secret, "text": f'{{"password": "{secret}"}}'},
        }

    assert one.key(request(credential)) == one.key(request("A1b2C3d4E5f6G7h8"))
