"""The files that a regression leaves behind: looked at before it begins, written when it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from errno import EISDIR
from pathlib import Path

from reenact.errors import UsageError
from reenact.runs.regression.account import Account, as_json
from reenact.runs.regression.junit import junit
from reenact.runs.regression.tally import Tally
from reenact.store.files import replace_file

__all__ = ["check_places", "write_reports"]


def check_places(places: dict[str, str | None]) -> None:
    """``{"--html": "out/report.html"}``: can a file be written at each of them? Makes the folders.

    Raises :class:`UsageError` now, not after an hour of work.
    """
    seen: dict[str, str] = {}
    for flag, place in places.items():
        if place is None:
            continue
        _check(flag, Path(place))
        other = seen.setdefault(os.path.realpath(place), flag)
        if other != flag:
            raise UsageError(
                f"{other} and {flag} are both to be written to {place}",
                hint="give each a file of its own",
            )


def _check(flag: str, place: Path) -> None:
    try:
        if place.is_dir():
            raise OSError(EISDIR, "it is a folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_name(f"{place.name}.tmp")  # as it will be written
        beside.open("ab").close()
        beside.unlink()
        if place.exists():
            place.open("ab").close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{flag} cannot be written to {place}: {why}",
            hint="choose a place that is yours to write; nothing has been run",
        ) from None


def write_reports(
    account: Account,
    tally: Tally,
    *,
    junit_to: str | None,
    json_to: str | None,
    html_to: str | None,
) -> list[OSError]:
    """Each that is asked for. What cannot be written after all is returned, and the others are."""
    wanted: list[tuple[str | None, Callable[[], str]]] = [
        (junit_to, lambda: junit(tally)),
        (json_to, lambda: json.dumps(as_json(account, tally), indent=2) + "\n"),
        (html_to, lambda: _page(account, tally)),
    ]
    failed: list[OSError] = []
    for place, content in wanted:
        if place is None:
            continue
        try:
            replace_file(
                Path(place),
                content().encode("utf-8", "backslashreplace"),
                sync=False,
                private=False,
            )
        except OSError as error:
            failed.append(error)
    return failed


def _page(account: Account, tally: Tally) -> str:
    from reenact.runs.regression.page import page

    return page(account, tally)
