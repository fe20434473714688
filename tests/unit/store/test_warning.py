"""Warnings that others hear as well."""

from __future__ import annotations

from reenact.store.warning import WarningRelay


def test_a_warning_is_said_and_heard_until_somebody_stops_listening() -> None:
    said: list[str] = []
    one: list[str] = []
    two: list[str] = []
    warn = WarningRelay(said.append)
    warn("a")
    stop = warn.add_listener(one.append)
    warn.add_listener(two.append)
    warn("b")
    stop()
    warn("c")
    assert (said, one, two) == (["a", "b", "c"], ["b"], ["b", "c"])
