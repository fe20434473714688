"""The app's side of a replay: may it run, and then it does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from reenact.errors import ReenactError
from reenact.exchange.adapters.base import Adapter
from reenact.exchange.client.interface import FinishedReplay, Refusal, ReplayCancelled, ReplayJob
from reenact.exchange.containment import (
    Declarations,
    drivers_argument,
    refusal_message,
    undeclared_drivers,
)
from reenact.exchange.model import Command, Payload, Route
from reenact.exchange.payload import check_payload
from reenact.exchange.recorder import ExchangeRecorder
from reenact.exchange.redaction import ExchangeRedactor, fill_values, placeholder_pointers
from reenact.store.warning import Warn

__all__ = ["NO_RECORDED_VARIABLES", "Credentials", "ReplayRunner"]

NO_RECORDED_VARIABLES: Final = (
    "recorded environment variables need a recording, which a live replay does not use"
)

Credentials = Callable[[str], Any]
"""Gives the value at a JSON pointer of a start payload, or None where it has none."""


class ReplayRunner:
    """Called from threads of the link, several at a time. ``doors`` may grow."""

    def __init__(
        self,
        desk: ExchangeRecorder,
        doors: Iterable[Adapter],
        *,
        credentials: Credentials | None,
        clean_with: Callable[[Iterable[str]], ExchangeRedactor],
        depth: int,
        declared: Declarations,
        warn: Warn,
    ) -> None:
        self._desk = desk
        self._doors = doors
        self._credentials = credentials
        self._clean_with = clean_with
        self._depth = depth
        self._declared = declared
        self._warn = warn

    def routes(self) -> tuple[Route, ...]:
        """See :class:`reenact.exchange.client.interface.Runner`."""
        return tuple(route for door in tuple(self._doors) for route in door.routes())

    def _find(self, route_id: str) -> tuple[Adapter, Route] | None:
        for door in tuple(self._doors):
            for route in door.routes():
                if route.route_id == route_id:
                    return door, route
        return None

    def check(
        self, command: Command, payload: Payload, redacted: tuple[str, ...]
    ) -> Refusal | None:
        """See :class:`reenact.exchange.client.interface.Runner`."""
        found = self._find(command.route_id)
        if found is None:
            return Refusal("route_unknown", f"this app has no route {command.route_id}")
        door, route = found
        if command.revision and command.revision != route.revision:
            return Refusal("revision_mismatch", f"the route is now {route.revision}")
        if command.depth > self._depth:
            return Refusal("depth", f"replays of replays go {self._depth} deep at most")
        if command.environment_variables == "recorded" and command.boundaries == "live":
            return Refusal("not_replayable", NO_RECORDED_VARIABLES)
        if payload.body.clipped is not None:
            return Refusal(
                "not_replayable", f"its body of {payload.body.clipped:,} bytes was not kept"
            )
        return self._check_drivers(command) or self._check_payload(door, command, payload, redacted)

    def _check_drivers(self, command: Command) -> Refusal | None:
        """The drivers that are loaded now count, whatever was registered."""
        found = self._declared.containment(command.boundaries)
        names = undeclared_drivers(found)
        if not names:
            return None
        return Refusal(
            "drivers_undeclared",
            f"{refusal_message(names)}. Add to the app: Agent(…, {drivers_argument(found)})",
        )

    def _check_payload(
        self, door: Adapter, command: Command, payload: Payload, redacted: tuple[str, ...]
    ) -> Refusal | None:
        try:
            check_payload(payload)
            values, missing = self._filling(payload, redacted)
            if not missing:
                fill_values(payload, values)
        except ReenactError as error:
            return Refusal("not_replayable", error.message)
        if missing:
            return Refusal(
                "not_replayable",
                f"no credentials for {', '.join(missing[:20])}: they were never recorded",
            )
        objection = door.objection(command.route_id, payload)
        return Refusal("not_replayable", objection) if objection else None

    def _filling(
        self, payload: Payload, redacted: tuple[str, ...]
    ) -> tuple[dict[str, Any], list[str]]:
        """What is put in, and the places for which there is nothing."""
        values: dict[str, Any] = {}
        missing: list[str] = []
        for pointer in placeholder_pointers(payload, redacted):
            value = self._credential(pointer)
            if value is None:
                missing.append(pointer)
            else:
                values[pointer] = value
        return values, missing

    def _credential(self, pointer: str) -> Any:
        if self._credentials is None:
            return None
        try:
            return self._credentials(pointer)
        except Exception as error:  # noqa: BLE001 - code of the program, which may fail in any way
            self._warn(f"credentials({pointer!r}) raised {type(error).__name__}")
            return None

    def run(self, job: ReplayJob) -> FinishedReplay:
        """See :class:`reenact.exchange.client.interface.Runner`."""
        found = self._find(job.command.route_id)
        if found is None:
            raise LookupError(job.command.route_id)
        door, route = found
        values, _ = self._filling(job.payload, job.redacted)
        payload = fill_values(job.payload, values) if values else job.payload
        secrets = [one for one in values.values() if isinstance(one, str)]
        cleaner = self._clean_with(secrets) if secrets else self._desk.cleaner
        passage = self._desk.replay(
            job, route.kind, cleaner, tuple(values), _stopper(job.cancelled)
        )
        exchange = door.enter(passage, route.route_id, payload, job.cancelled)
        written = job.into if job.into.is_dir() else None
        definition = door.definition(route.route_id)
        return FinishedReplay(self._desk.replayed(exchange, definition), written)


def _stopper(cancelled: threading.Event) -> Callable[[], None]:
    def check() -> None:
        if cancelled.is_set():
            raise ReplayCancelled

    return check
