"""The names of what programs can do, and the hash of the set."""

from __future__ import annotations

import pytest

from reenact.errors import UsageError
from reenact.policy.access import BUILT_IN, KNOWN, Capabilities, set_hash

BORUNA = """
net.fetch fs.read fs.write db.query ui.render time.now random llm.call actor.spawn actor.send
step.input
""".split()


def test_hash_is_the_one_that_boruna_computes() -> None:
    golden = "sha256:980d017dc54e30c39c329484b501fbe46914d9ad344bfcb4610b0280f4300a67"
    assert set_hash((name, "1") for name in BORUNA) == golden
    assert Capabilities(dict.fromkeys(reversed(BORUNA), "1")).capability_set_hash() == golden


def test_built_in_names() -> None:
    assert list(BUILT_IN) == (
        "net.fetch net.stream net.connect llm.call tool.call process.exec time.now random fs.read "
        "fs.write env.read mcp.call".split()
    )
    assert set(BUILT_IN.values()) == {"1"}
    assert set(BUILT_IN) <= {name for name, _ in KNOWN.items()}


def test_registering_changes_the_set_and_its_hash() -> None:
    known = Capabilities()
    before = known.capability_set_hash()
    known.register("db.query")
    assert "db.query" in known
    assert ("db.query", "1") in known.items()
    assert known.capability_set_hash() != before
    assert Capabilities().capability_set_hash() == before


def test_registering_again_is_fine_and_another_version_is_not() -> None:
    known = Capabilities()
    known.register("db.query", "2")
    known.register("db.query", "2")
    with pytest.raises(UsageError, match="version 2, not 3"):
        known.register("db.query", "3")
    assert dict(known.items())["db.query"] == "2"


@pytest.mark.parametrize(
    "name", ["", "Net.fetch", "net.", ".net", "net fetch", "net.fetch\n", "a\tb", "n" * 129]
)
def test_name_that_cannot_be_one(name: str) -> None:
    known = Capabilities()
    with pytest.raises(UsageError, match="cannot be the name"):
        known.register(name)
    assert name not in known


@pytest.mark.parametrize("version", ["", "1\n", "1\t2", " "])
def test_version_that_would_forge_the_hash(version: str) -> None:
    with pytest.raises(UsageError, match="cannot be the version"):
        Capabilities().register("db.query", version)


def test_nearest_name() -> None:
    assert Capabilities().nearest("net.fecth") == "did you mean net.fetch?"
    assert Capabilities().nearest("zzz").startswith("one of env.read, ")
