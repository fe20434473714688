"""Requests and responses of the batch and saved search API."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

import msgspec
from sqlalchemy import Row

from reenact.exchange.model import Boundaries, Containment, EnvironmentVariables, Id, RouteId
from reenact.server.auth.permissions import EnvironmentKind, ResourceScope
from reenact.server.replays.schema import Reason

__all__ = [
    "MOST_ITEMS",
    "BatchRequest",
    "BatchState",
    "BatchView",
    "CauseView",
    "Group",
    "ItemState",
    "ItemView",
    "KeptPlan",
    "Progress",
    "SavedSearch",
    "Search",
    "Sizing",
]

BatchState = Literal["planned", "running", "completed", "cancelling", "cancelled"]
ItemState = Literal["waiting", "asked", "ended", "refused", "skipped", "cancelled"]

MOST_ITEMS: Final = 10_000
"""Exchanges of a batch."""

_Time = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
_Word = Annotated[str, msgspec.Meta(max_length=512)]


class _Asked(msgspec.Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A field that is misspelt would be a wish that is not heard."""


class _Shown(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All fields are written."""


class Search(_Asked, frozen=True, omit_defaults=True):
    """The filters of ``GET /api/v1/exchanges``; ``within`` counts back from the moment in which it
    is used, in milliseconds. Replays are found only with ``replay`` true (no others) or ``any``."""

    app: _Word = ""
    environment: _Word = ""
    route: _Word = ""
    status: _Word = ""
    replay: bool | Literal["any"] | None = None
    replayable: bool | None = None
    since: _Time = 0
    until: _Time = 0
    within: _Time = 0
    trace_id: _Word = ""
    correlation_id: _Word = ""
    text: _Word = ""


class BatchRequest(_Asked, frozen=True):
    """Request for a batch: one of the first three fields selects the exchanges.

    ``concurrency`` is the number of simultaneous replays per agent, ``perMinute`` their rate.
    """

    search: Search | None = None
    saved: _Word = ""
    exchanges: Annotated[tuple[Id, ...], msgspec.Meta(max_length=MOST_ITEMS)] = ()
    environment: Id | None = None
    boundaries: Boundaries = "recorded"
    strict: bool = False
    environment_variables: EnvironmentVariables = "current"
    revision: Literal["current", "same"] = "current"
    reason: Reason = ""
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=64)] = 4
    per_minute: Annotated[int, msgspec.Meta(ge=1, le=6_000)] = 60


class Group(_Shown, frozen=True):
    """Exchanges of one route that would run in one location.

    ``refused`` is the most frequent refusal code, ``refusals`` the number of refused exchanges and
    ``message`` the reason. ``agents`` is the number of app agents online there, and ``containment``
    their combined containment.
    """

    app: str
    environment: str
    environment_kind: EnvironmentKind
    route_id: RouteId
    exchanges: int
    replayable: int
    agents: int
    refused: str
    refusals: int = 0
    message: str = ""
    containment: Containment = Containment()


class Sizing(_Shown, frozen=True):
    """Expected effect of a batch.

    ``live`` counts replays with possible live calls, ``withoutRecording`` exchanges without
    recorded results.
    """

    exchanges: int
    replayable: int
    not_found: int
    skipped: dict[str, int]
    refused: dict[str, int]
    live: int
    without_recording: int
    environments: dict[str, int]
    apps: dict[str, int]
    routes: dict[str, int]
    groups: tuple[Group, ...]


class KeptPlan(msgspec.Struct, frozen=True):
    """Stored plan, with the locations of its exchanges.

    A caller who can read all of them can read the batch.
    """

    sizing: Sizing
    sources: tuple[ResourceScope, ...]


class Progress(_Shown, frozen=True):
    """Numbers of exchanges of a batch by state. ``verdicts``, ``outcomes`` and ``endings`` count
    replays that have ended: ``endings`` by the ending of their exchanges, ``failed`` the failed ones by
    verdict. ``codes`` count what was refused, skipped, or came to no end of its own."""

    waiting: int
    asked: int
    ended: int
    refused: int
    skipped: int
    cancelled: int
    outcomes: dict[str, int]
    verdicts: dict[str, int]
    endings: dict[str, int]
    failed: dict[str, int]
    codes: dict[str, int]

    @classmethod
    def of(cls, rows: Any) -> Progress:
        states: dict[str, int] = dict.fromkeys(
            ("waiting", "asked", "ended", "refused", "skipped", "cancelled"), 0
        )
        tallies: dict[str, dict[str, int]] = {
            name: {} for name in ("outcome", "verdict", "ending", "code")
        }
        failed: dict[str, int] = {}
        for row in rows:
            states[row.state] += row.items
            if row.ending == "failed":
                failed[row.verdict] = failed.get(row.verdict, 0) + row.items
            for name, tally in tallies.items():
                if value := getattr(row, name):
                    tally[value] = tally.get(value, 0) + row.items
        return cls(
            **states,
            outcomes=tallies["outcome"],
            verdicts=tallies["verdict"],
            endings=tallies["ending"],
            failed=failed,
            codes=tallies["code"],
        )


class BatchView(_Shown, frozen=True):
    """A batch. Times that have not come are 0. ``hindered`` is the code of what it waits for."""

    batch_id: str
    state: BatchState
    search: Search | None
    saved: str
    environment: str | None
    boundaries: Boundaries
    strict: bool
    environment_variables: EnvironmentVariables
    revision: str
    reason: str
    concurrency: int
    per_minute: int
    requested_by: str
    confirmed_by: str
    created_at: int
    confirmed_at: int
    ended_at: int
    hindered: str
    plan: Sizing
    progress: Progress


class _Row(_Shown, frozen=True):
    """View with the columns of its row."""

    @classmethod
    def of(cls, row: Row[Any]) -> Self:
        return cls(**{name: getattr(row, name) for name in cls.__struct_fields__})


class ItemView(_Row, frozen=True):
    """An exchange of a batch, and its replay. ``ending`` and ``httpStatus`` say how the replay's own
    exchange ended."""

    position: int
    exchange_id: str
    app: str
    environment: str
    route_id: str
    state: ItemState
    replay_id: str
    agent_id: str
    outcome: str
    code: str
    message: str
    verdict: str
    cause: str
    ending: str
    http_status: int


class CauseView(_Row, frozen=True):
    """Exchanges of a batch whose replays differ first in the same place, with the same verdict.
    ``replay_id`` is one of them."""

    verdict: str
    cause: str
    exchanges: int
    replay_id: str


class SavedSearch(_Shown, frozen=True):
    """Filters under a name. ``changedBy`` is the name of the user who saved them last."""

    name: str
    filters: Search
    changed_at: int
    changed_by: str
