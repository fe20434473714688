"""Causes that lie in files: another one is read than was, or something else is written."""

from __future__ import annotations

from collections.abc import Iterator

from reenact.views.causes.case import Case, Cause, Way
from reenact.views.causes.ways import updating

__all__ = ["find"]


def find(case: Case) -> Iterator[Cause]:
    """Nothing unless it is a file that differs."""
    one, other = case.recorded, case.asked
    if case.divergence.code != "event_payload_mismatch":
        return
    if not isinstance(one, dict) or not isinstance(other, dict):
        return
    seen = case.divergence.observed
    if one.get("source") == "fs" and one.get("op") == other.get("op"):
        yield Cause(
            name="file",
            sure="certain",
            text=f"What the program reads has changed since it was recorded: {one.get('op')}.",
            ways=[
                Way(text="Put it back as it was."),
                updating(case, "If it is to be like that, make again what differs."),
                Way(
                    text="If the recorded run has changed it itself, keep what is read, and record again.",
                    policy={"files": {"content": True}},
                    command=case.again.rewrite,
                ),
            ],
        )
    elif (
        seen is not None and seen.type == "state_mutation" and one.get("type") == other.get("type")
    ):
        yield Cause(
            name="written",
            sure="certain",
            text=f"The program changes something else than it did: {seen.operation}.",
            ways=[
                updating(case),
                Way(
                    text="If it is not intended, look for what it was made of: the calls before were the "
                    "same."
                ),
            ],
        )
