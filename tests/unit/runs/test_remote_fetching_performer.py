"""Getting a recording before it is re-enacted: tries, and what is told when it cannot be got."""

from __future__ import annotations

from pathlib import Path

import pytest

import reenact
from reenact.errors import RecordingMissing, ReenactError, ServerRefused, ServerUnusable, UsageError
from reenact.runs.regression.outcomes import Outcome, as_line
from reenact.runs.remote.download import FetchingPerformer, FetchOptions
from reenact.runs.remote.location import GIVEN, RECORDING, RemoteRecording

SECRET = "-".join(["rather", "secret"])
ONE = RemoteRecording(keeper="capture", name="capture:cap_1")
AWAY = ServerUnusable("nobody answers", hint="wait")
BUSY = ServerRefused("too many", problem="rate_limited")


class Shelf:
    """A library with errors that are raised first, one for each try."""

    def __init__(self, *errors: ReenactError | OSError, given: bytes = b"") -> None:
        self._errors = list(errors)
        self._given = given
        self.tries = 0

    def fetch(self, remote: RemoteRecording, folder: Path) -> None:
        self.tries += 1
        (folder / RECORDING).mkdir()  # fails when a try before left something
        if self._errors:
            raise self._errors.pop(0)
        (folder / RECORDING).rmdir()
        with reenact.session(capture=folder / RECORDING, mode="record") as session:
            session.record_event("run_start", {"input": remote.name})
        if self._given:
            (folder / GIVEN).write_bytes(self._given)


class Stage:
    """A performer that tells what it was given, and where it is."""

    def __call__(self, recording: Path, given: bytes | None = None) -> Outcome:
        detail = f"at {recording} with {given!r} and {SECRET}"
        return Outcome(recording=str(recording), status="failed", cause=SECRET, detail=detail)

    def stop(self) -> None:
        """There is nothing to stop."""

    def close(self) -> None:
        """There is nothing to close."""


def _pulling(shelf: Shelf, tmp_path: Path) -> FetchingPerformer:
    means = FetchOptions(
        lambda access: {"capture": shelf}, SECRET.encode(), secrets=(SECRET,), folder=str(tmp_path)
    )
    assert SECRET not in repr(means)
    return FetchingPerformer(Stage(), means, pauses=(0.0, 0.0))


def test_names_not_places_and_no_secrets(tmp_path: Path) -> None:
    pulling = _pulling(Shelf(given=b"[1]"), tmp_path)
    outcome = pulling(ONE)
    assert (outcome.recording, outcome.cause) == (ONE.name, "…")
    assert outcome.detail == f"at {ONE.name} with b'[1]' and …"
    here = pulling(tmp_path)
    assert here.detail == f"at {tmp_path} with None and …"


def test_nobody_answers_at_first(tmp_path: Path) -> None:
    shelf = Shelf(AWAY, BUSY)
    assert _pulling(shelf, tmp_path)(ONE).status == "failed", "it was got, and performed"
    assert shelf.tries == 3


def test_nobody_answers_at_all(tmp_path: Path) -> None:
    shelf = Shelf(*[AWAY] * 5)
    pulling = _pulling(shelf, tmp_path)
    outcome = pulling(ONE)
    assert (outcome.status, outcome.cause, outcome.away) == ("unreadable", "ServerUnusable", True)
    assert (shelf.tries, pulling(ONE).away, shelf.tries) == (3, True, 4), "then only once for each"
    assert pulling(ONE).away
    assert pulling(ONE).status == "failed", "it is back"
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    "error, cause, away",
    [
        (RecordingMissing("gone"), "RecordingMissing", False),
        (ServerRefused("no", problem="permission_denied"), "ServerRefused", True),
        (OSError(28, "No space left on device"), "SinkUnwritable", True),
    ],
    ids=["missing", "refused", "full"],
)
def test_what_another_try_does_not_change(
    tmp_path: Path, error: ReenactError | OSError, cause: str, away: bool
) -> None:
    shelf = Shelf(error)
    outcome = _pulling(shelf, tmp_path)(ONE)
    assert (outcome.status, outcome.cause, outcome.away) == ("unreadable", cause, away)
    assert shelf.tries == 1
    assert SECRET.encode() not in as_line(outcome)


def test_what_is_wrong_with_the_whole_job_is_raised(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not installed"):
        _pulling(Shelf(UsageError("not installed")), tmp_path)(ONE)
    assert list(tmp_path.glob("*.part")) == []


def test_who_is_stopped_does_not_wait(tmp_path: Path) -> None:
    shelf = Shelf(*[AWAY] * 3)
    means = FetchOptions(lambda access: {"capture": shelf}, b"", folder=str(tmp_path))
    pulling = FetchingPerformer(Stage(), means, pauses=(3600.0,))
    pulling.stop()
    pulling.close()
    assert pulling(ONE).away
    assert shelf.tries == 0
