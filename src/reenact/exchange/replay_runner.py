"""Checks and execution of replays in the app."""

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
"""Returns the value at a JSON pointer of a start payload, or None."""


class ReplayRunner:
    """Runner of replays. Several client threads call it. ``adapters`` can grow."""

    def __init__(
        self,
        recorder: ExchangeRecorder,
        adapters: Iterable[Adapter],
        *,
        credentials: Credentials | None,
        redactor_for: Callable[[Iterable[str]], ExchangeRedactor],
        depth: int,
        declared: Declarations,
        warn: Warn,
    ) -> None:
        self._recorder = recorder
        self._adapters = adapters
        self._credentials = credentials
        self._redactor_for = redactor_for
        self._depth = depth
        self._declared = declared
        self._warn = warn

    def routes(self) -> tuple[Route, ...]:
        """Return the current routes."""
        return tuple(route for adapter in tuple(self._adapters) for route in adapter.routes())

    def _find(self, route_id: str) -> tuple[Adapter, Route] | None:
        for adapter in tuple(self._adapters):
            for route in adapter.routes():
                if route.route_id == route_id:
                    return adapter, route
        return None

    def check(
        self, command: Command, payload: Payload, redacted: tuple[str, ...]
    ) -> Refusal | None:
        """Return why ``payload`` cannot be replayed here, or None."""
        found = self._find(command.route_id)
        if found is None:
            return Refusal("route_unknown", f"this app has no route {command.route_id}")
        adapter, route = found
        if command.revision and command.revision != route.revision:
            return Refusal("revision_mismatch", f"the route is now {route.revision}")
        if command.depth > self._depth:
            return Refusal("depth", f"replays of replays go {self._depth} deep at most")
        if command.environment_variables == "recorded" and command.boundaries == "live":
            return Refusal("not_replayable", NO_RECORDED_VARIABLES)
        if payload.body.clipped is not None:
            return Refusal(
                "not_replayable", f"its body of {payload.body.clipped:,} bytes was not stored"
            )
        return self._check_drivers(command) or self._check_payload(
            adapter, command, payload, redacted
        )

    def _check_drivers(self, command: Command) -> Refusal | None:
        """Check the drivers that are loaded now, which can differ from the registered ones."""
        found = self._declared.containment(command.boundaries)
        names = undeclared_drivers(found)
        if not names:
            return None
        return Refusal(
            "drivers_undeclared",
            f"{refusal_message(names)}. Add to the app: Agent(…, {drivers_argument(found)})",
        )

    def _check_payload(
        self, adapter: Adapter, command: Command, payload: Payload, redacted: tuple[str, ...]
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
        objection = adapter.objection(command.route_id, payload)
        return Refusal("not_replayable", objection) if objection else None

    def _filling(
        self, payload: Payload, redacted: tuple[str, ...]
    ) -> tuple[dict[str, Any], list[str]]:
        """Return the credentials by pointer, and the pointers without a value."""
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
        """Run a replay."""
        found = self._find(job.command.route_id)
        if found is None:
            raise LookupError(job.command.route_id)
        adapter, route = found
        values, _ = self._filling(job.payload, job.redacted)
        payload = fill_values(job.payload, values) if values else job.payload
        secrets = [one for one in values.values() if isinstance(one, str)]
        redactor = self._redactor_for(secrets) if secrets else self._recorder.redactor
        active = self._recorder.replay(
            job, route.kind, redactor, tuple(values), _stopper(job.cancelled)
        )
        exchange = adapter.enter(active, route.route_id, payload, job.cancelled)
        written = job.into if job.into.is_dir() else None
        definition = adapter.definition(route.route_id)
        return FinishedReplay(self._recorder.replayed(exchange, definition), written)


def _stopper(cancelled: threading.Event) -> Callable[[], None]:
    def check() -> None:
        if cancelled.is_set():
            raise ReplayCancelled

    return check
