"""Somebody who replays while things break, and who afterwards counts what there is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx

from reenact.audit.keys import Key
from reenact.audit.verify import verify_export
from tests.server.fire.running import PATIENCE, until

ENDED: Final = frozenset({"completed", "failed", "refused", "cancelled", "expired"})


class Operator:
    """At the server ``url`` with ``key``, who asks again until there is an answer. Close it."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=PATIENCE,
            trust_env=False,
        )

    def close(self) -> None:
        self.http.close()

    def try_to(self, method: str, path: str, **request: Any) -> httpx.Response | None:
        """The answer; None where there was none, or one of a server that cannot now."""
        try:
            answer = self.http.request(method, path, **request)
        except httpx.TransportError:
            return None
        return answer if answer.status_code < 500 else None

    def get(self, path: str, **params: Any) -> Any:
        """What is there, as soon as somebody answers."""
        answer = until(lambda: self.try_to("GET", path, params=params))
        assert answer is not None
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ask(self, exchange: str, run: str, **wanted: Any) -> httpx.Response | None:
        """One try to have ``exchange`` replayed as ``run``, once however often it is asked."""
        try:
            answer = self.try_once(exchange, run, **wanted)
        except httpx.TransportError:
            return None
        return answer if answer.status_code < 500 else None

    def try_once(self, exchange: str, run: str, *, key: str = "", **wanted: Any) -> httpx.Response:
        """The same, whatever the answer is; once for each ``key``."""
        patch = [{"op": "replace", "path": "/body/run", "value": run}]
        return self.http.post(
            f"/api/v1/exchanges/{exchange}/replays",
            json={"patch": patch, **wanted},
            headers={"Idempotency-Key": key or run},
        )

    def asked(self, exchange: str, run: str) -> str:
        """The id of that replay, however many tries it takes."""
        answer = until(lambda: self.ask(exchange, run))
        assert answer is not None
        assert answer.status_code == 202, answer.text
        replay: str = answer.json()["replayId"]
        return replay

    def state(self, replay: str) -> str:
        state: str = self.get(f"/api/v1/replays/{replay}")["state"]
        return state

    def has_ended(self, replay: str) -> bool:
        return self.state(replay) in ENDED

    def end_of(self, replay: str) -> dict[str, Any]:
        """The replay, once it has ended."""
        until(lambda: self.has_ended(replay), f"{replay} does not end")
        found: dict[str, Any] = self.get(f"/api/v1/replays/{replay}")
        return found

    def listed(self, path: str, **params: Any) -> list[dict[str, Any]]:
        """All of it, page by page."""
        items: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            page = self.get(path, limit="200", cursor=cursor, **params)
            items += page["items"]
            cursor = page["next"]
        return items

    def orders(self) -> Counter[str]:
        """How many exchanges there are of what the app did by itself."""
        return Counter(
            f"order {one['correlationId']}"
            for one in self.listed("/api/v1/exchanges")
            if not one["replayId"]
        )

    def replays(self) -> Counter[str]:
        """How many exchanges there are of each replay."""
        found = self.listed("/api/v1/exchanges", replay="true")
        return Counter(one["replayId"] for one in found if one["replayId"])

    def records(self, replay: str) -> list[tuple[str, str]]:
        """Action and outcome of what the audit log has about a replay, the oldest first."""
        found = self.get("/api/v1/audit/records", replay=replay)["items"]
        return [(one["record"]["action"], one["record"].get("outcome", "")) for one in found][::-1]

    def verify(self, folder: Path) -> bool:
        """Does the whole log, exported, hold?"""
        folder.mkdir(exist_ok=True)
        export, key = folder / "audit.tar", self.http.get("/api/v1/audit/key").text
        export.write_bytes(self.http.get("/api/v1/audit/export").content)
        report = verify_export(export, [Key.from_text(key.removeprefix("0 ").strip())])
        assert report.ok, report
        return report.ok
