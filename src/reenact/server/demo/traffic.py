"""Traffic of the demo: orders, failures, replays, a batch, and a pushed run.

All of it goes over HTTP, like the traffic of any client.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from reenact._system import monotonic
from reenact.store.pack import pack

__all__ = ["Traffic"]

_PATIENCE: Final = 60.0
_PAUSE: Final = 0.2
_ROUTE: Final = "POST /orders"
_ORDERS: Final[tuple[list[dict[str, Any]], ...]] = (
    [{"sku": "tea", "quantity": 2}],
    [{"sku": "pot", "quantity": 3}, {"sku": "cup", "quantity": 6}],
    [{"sku": "cup", "quantity": 0}],
    [{"sku": "sugar", "quantity": 1}],
    [],
)


class Gone(Exception):
    """The demo ends, or something in it does not answer."""


class Traffic:
    """Fills the server at ``server`` through the two shops. Stops when ``stopping`` is set."""

    def __init__(
        self, server: str, key: str, staging: str, production: str, warehouse: str, folder: Path
    ) -> None:
        self._server = server
        self._key = key
        self._shops = (staging, production)
        self._warehouse = warehouse
        self._folder = folder
        self.stopping = threading.Event()

    def run(self) -> bool:
        """Everything, once; False when it could not be done to the end."""
        try:
            self._orders()
            self._run_to_look_at()
            self._replays()
            self._what_people_did()
        except (Gone, OSError):
            return False
        return True

    def _orders(self) -> None:
        for number, items in enumerate(_ORDERS, 1):
            order = f"o-{number:03d}"
            for shop in self._shops:
                self._post(f"{shop}/orders", {"id": order, "items": items}, order)
        question = {"question": "How do I make green tea?"}
        self._post(f"{self._shops[0]}/advice", question, "advice-1")

    def _replays(self) -> None:
        """Of the first order unchanged; of the one that failed as it should have been; in production
        with a reason."""
        staging = self._wait(lambda: self._found("environment=staging&text=o-001"))
        failed = self._wait(lambda: self._found("environment=staging&text=o-003"))
        live = self._wait(lambda: self._found("environment=production&text=o-002"))
        edit = [{"op": "replace", "path": "/body/items/0/quantity", "value": 4}]
        wanted: tuple[tuple[str, dict[str, Any]], ...] = (
            (staging, {}),
            (failed, {"patch": edit, "reason": "an order of none"}),
            (live, {"reason": "does it still do the same?"}),
        )
        for exchange, body in wanted:
            self._ask(f"/api/v1/exchanges/{exchange}/replays", body)

    def _what_people_did(self) -> None:
        """A colleague is invited, a search saved and a noise rule written, and all orders of a place
        are replayed."""
        grant = {"role": "viewer", "environment": "staging"}
        self._ask("/api/v1/users", {"email": "vera@example.com", "grants": [grant]})
        orders = {"app": "shop", "route": _ROUTE, "replay": False}
        self._ask("/api/v1/searches/failed%20orders", {**orders, "status": "failed"}, "PUT")
        rule = {"path": "/calls/*/response/body/reservation", "kind": "ignore", "note": "a counter"}
        self._ask("/api/v1/noise", {"app": "shop", "route": _ROUTE, "rules": [rule]}, "PUT")
        wanted = {"search": {**orders, "environment": "staging"}, "reason": "before the release"}
        batch = f"/api/v1/batches/{self._ask('/api/v1/batches', wanted)['batchId']}"
        self._ask(f"{batch}/confirm", {})
        self._wait(lambda: "ended" if self._ask(batch)["state"] == "completed" else "")

    def _found(self, query: str) -> str:
        """The exchange of an order at the shop that is like this; empty while there is none."""
        path = f"/api/v1/exchanges?app=shop&route=POST%20/orders&replay=false&{query}"
        items = self._ask(path)["items"]
        return str(items[0]["exchangeId"]) if items else ""

    def _run_to_look_at(self) -> None:
        run = self._folder / "tea"
        program = [sys.executable, "-m", "reenact.server.demo.question", self._warehouse]
        subprocess.run(
            [sys.executable, "-m", "reenact", "run", "--capture", str(run), "--", *program],
            check=False,
            capture_output=True,
            timeout=_PATIENCE,
        )
        packed = self._folder / "tea.packed"
        pack(run, packed)
        self._ask("/api/v1/captures", packed.read_bytes())

    def _wait(self, look: Callable[[], str]) -> str:
        end = monotonic() + _PATIENCE
        while not (found := look()):
            if self.stopping.wait(_PAUSE) or monotonic() > end:
                raise Gone
        return found

    def _post(self, url: str, value: Any, order: str) -> None:
        headers = {"Content-Type": "application/json", "X-Correlation-Id": order}
        request = urllib.request.Request(url, json.dumps(value).encode(), headers)
        try:
            with _open(request) as answer:
                answer.read()
        except urllib.error.HTTPError as refused:  # some orders are mistakes, and meant to be
            refused.close()

    def _ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Return the server's response. Raises :class:`OSError`."""
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        data = (
            None if body is None else json.dumps(body).encode() if isinstance(body, dict) else body
        )
        if isinstance(body, bytes):
            headers["Content-Type"] = "application/octet-stream"
        request = urllib.request.Request(f"{self._server}{path}", data, headers, method=method)
        with _open(request) as answer:
            return json.load(answer)


_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _open(request: urllib.request.Request) -> Any:
    """All of it is on this machine, and goes through no proxy."""
    return _direct.open(request, timeout=_PATIENCE)
