"""What the form of a replay says about drivers, files and memory. That it is true is tested in
``tests/server/traffic/test_containment.py`` and ``tests/integration/exchange/test_replayed_files.py``."""

from __future__ import annotations

import re

import pytest

from reenact.exchange.model import BOUNDARIES, Boundaries, Containment, DriverUse
from reenact.server.web.replays.plan import CALLS, contained

DECLARED = Containment(
    drivers=(
        DriverUse(name="psycopg", treatment="refuse"),
        DriverUse(name="redis", treatment="allow"),
        DriverUse(name="sqlite3"),
    ),
    scratch=("/var/tmp/shop",),
)


def _text(containment: Containment | None, boundaries: Boundaries) -> str:
    return re.sub(r"<[^>]+>", "", str(contained(containment, boundaries)))


@pytest.mark.parametrize("boundaries", ["recorded", "recorded_then_live"])
def test_form_lists_each_driver_with_its_treatment(boundaries: Boundaries) -> None:
    text = _text(DECLARED, boundaries)
    assert "refused psycopg: each statement is refused" in text
    assert "executed redis: statements are executed for real" in text
    assert "undeclared sqlite3: the app has not declared how a replay treats it" in text


def test_form_names_the_scratch_folders() -> None:
    assert "is refused, except for temporary files and in /var/tmp/shop." in _text(
        DECLARED, "recorded"
    )
    assert "is refused, except for temporary files." in _text(Containment(), "recorded")
    assert "they are written, renamed and deleted for real." in _text(
        Containment(files="allow"), "recorded"
    )


def test_form_of_a_live_replay_says_that_nothing_is_refused() -> None:
    text = _text(DECLARED, "live")
    assert "A live replay refuses nothing" in text
    assert "is refused" not in text


@pytest.mark.parametrize("boundaries", BOUNDARIES)
@pytest.mark.parametrize("containment", [None, Containment(), DECLARED])
def test_form_never_promises_that_nothing_leaves_the_app(
    boundaries: Boundaries, containment: Containment | None
) -> None:
    text = CALLS[boundaries] + _text(containment, boundaries)
    assert "The memory of the app changes as in any request" in text
    assert "nothing leaves" not in text.lower()
    if boundaries != "live":
        assert "Not contained: files that the app had open before the replay" in text
        assert "threads outside the replay that get work from it without a queue, and files" in text
        assert "files and connections that C libraries open themselves" in text
