"""Fixture roots and cassettes that a marker or a setting names."""

from __future__ import annotations

import pytest

from tests.plugin.standin import ARGUMENTS
from tests.unit.policy.unsafe_names import REFUSED

pytest_plugins = ("pytester",)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the plugins of others, which take their time and do not all go together."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


UNSAFE = [(name, reason) for name, reason in REFUSED if name]


def test_a_marker_and_a_setting_name_the_fixture_root(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nreenact_fixture_root = fixtures/all\n")
    pytester.makepyfile(
        """
        import pytest
        import reenact

        @pytest.mark.reenact(cassette="one", fixture_root="fixtures/mine")
        def test_marker():
            reenact.current().call("ping", {}, lambda: 1, capability="net.fetch")

        @pytest.mark.reenact(cassette="two")
        def test_setting():
            reenact.current().call("ping", {}, lambda: 1, capability="net.fetch")
        """
    )
    for _ in range(2):
        pytester.runpytest_subprocess(*ARGUMENTS).assert_outcomes(passed=2)
    found = sorted(str(one.relative_to(pytester.path)) for one in pytester.path.rglob("*.jsonl"))
    assert found == ["fixtures/all/rr/two.jsonl", "fixtures/mine/rr/one.jsonl"]


def test_unsafe_names_in_markers_are_refused_with_the_reason(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        NAMES = {[name for name, _ in UNSAFE]!r}
        MODES = ["record", "replay", "rewrite"]


        def _tests():
            for mode in MODES:
                for number, name in enumerate(NAMES):
                    marks = pytest.mark.reenact(cassette=name, mode=mode)
                    yield pytest.param(marks=marks, id=f"{{mode}}-{{number}}-name")
                marks = pytest.mark.reenact(cassette="x", fixture_root="../out", mode=mode)
                yield pytest.param(marks=marks, id=f"{{mode}}-up-root")


        @pytest.mark.parametrize((), list(_tests()))
        def test_never():
            pytest.fail("it ran")
        """
    )
    result = pytester.runpytest_subprocess(*ARGUMENTS, "-q")
    result.assert_outcomes(errors=3 * (len(UNSAFE) + 1))
    text = str(result.stdout)
    assert "it ran" not in text
    assert text.count("cannot be a cassette: ") >= 3 * len(UNSAFE)
    assert text.count("cannot be a fixture root: it has the segment '..'") >= 3
    assert list(pytester.path.rglob("*.jsonl*")) == []
