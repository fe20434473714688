"""Two tenants on one server never see each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from reenact.server.auth.permissions import PERMISSIONS, is_grantable
from reenact.server.endpoint import Endpoint
from reenact.server.routes import ENDPOINTS
from reenact.server.storage.tables import METADATA, TENANTS
from tests.server.house import PASSWORD, House, running
from tests.server.traffic.puppet import Puppet, ask_for, exchange

EVERYTHING = tuple(one for one in PERMISSIONS if is_grantable(one) and one != "platform:admin")


class Filled:
    """A house in which ``default`` has one of everything, and ``other`` nothing."""

    def __init__(self, house: House) -> None:
        self.house = house
        house.tenant("other")
        house.environment("staging")
        agent = Puppet(house)
        agent.register()
        agent.ingest(exchange("secret-exchange", correlation_id="secret-order"))
        self.owner = house.client(house.key(*EVERYTHING))
        self.stranger = house.client(house.key(*EVERYTHING, tenant="other"))
        self.stranger_agent = Puppet(house, agent_id="other-agent", tenant="other")
        self.stranger_agent.register()
        replay = ask_for(self.owner, "secret-exchange").json()
        batch = self.owner.post("/api/v1/batches", json={"exchanges": ["secret-exchange"]}).json()
        assert (
            self.owner.put("/api/v1/searches/secret-search", json={"app": "shop"}).status_code
            == 200
        )
        user = house.user("secret@example.com", "tenant admin", password=PASSWORD)
        grant = self.owner.get("/api/v1/users").json()["items"][0]["grants"][0]["id"]
        key = self.owner.get("/api/v1/keys").json()["items"][0]["id"]
        self.ids = {
            "exchanges": "secret-exchange",
            "replays": replay["replayId"],
            "batches": batch["batchId"],
            "searches": "secret-search",
            "users": user,
            "people": user,
            "keys": key,
            "grants": grant,
            "agents": "agent-1",
            "captures": "none",
            "recordings": "none",
            "diff": "secret-exchange",
            "compare": "secret-exchange",
            "tenants": "default",
        }

    def path(self, endpoint: Endpoint) -> str:
        """Of the owner's things."""
        return re.sub(
            r"([a-z]+)/\{[^}]*\}", lambda part: f"{part[1]}/{self.ids[part[1]]}", endpoint.path
        )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with running(tmp_path_factory.mktemp("two")) as house:
        yield Filled(house)


LISTS = [
    one
    for one in ENDPOINTS
    if one.method == "GET" and "{" not in one.path and "api" in one.path and one.needs != "open"
]
ONES = [
    one
    for one in ENDPOINTS
    if "{" in one.path
    and one.needs != "platform:admin"  # who manages tenants
    and not any(own in one.path for own in ("audit/", "environments", "static"))
    and (one.method, one.path) != ("PUT", "/api/v1/searches/{name}")  # it would be one's own
]


FORM = "application/x-www-form-urlencoded"


def body(endpoint: Endpoint) -> dict[str, Any]:
    """What would be taken if the thing were one's own."""
    last = endpoint.path.rpartition("/")[2]
    bodies: dict[str, dict[str, Any]] = {
        "grants": {"role": "viewer"},
        "replays": {"reason": "x"},
        "heartbeat": {"epoch": 1},
        "state": {"epoch": 1, "state": "running"},
    }
    return bodies.get(last, {})


@pytest.mark.parametrize("endpoint", ONES, ids=lambda one: f"{one.method} {one.path}")
def test_nothing_of_another_tenant_is_found(filled: Filled, endpoint: Endpoint) -> None:
    agents = endpoint.needs == "agent:connect"
    client = filled.stranger_agent.http if agents else filled.stranger
    path = filled.path(endpoint) + ("?epoch=1" if agents else "")
    sent = None if endpoint.method in ("GET", "DELETE") else body(endpoint)
    as_what: dict[str, Any] = {"data" if endpoint.page else "json": sent}
    headers = {"Content-Type": FORM} if endpoint.page and sent is not None else {}
    answer = client.request(endpoint.method, path, headers=headers, **as_what)
    assert answer.status_code == 404, answer.text
    assert "secret" not in answer.text.replace("secret-exchange", "")


@pytest.mark.parametrize("endpoint", LISTS, ids=lambda one: one.path)
def test_no_list_has_anything_of_another_tenant(filled: Filled, endpoint: Endpoint) -> None:
    answer = filled.stranger.get(endpoint.path, params={"app": "shop", "route": "orders"})
    text = answer.text
    for mine in {*filled.ids.values(), "secret@example.com", "secret-order"} - {"none"}:
        assert mine not in text.replace("test.example/audit/default", "")


def test_the_owner_has_all_of_it(filled: Filled) -> None:
    for path in (
        "exchanges/secret-exchange",
        f"replays/{filled.ids['replays']}",
        "exchanges/secret-exchange/lineage",
    ):
        assert filled.owner.get(f"/api/v1/{path}").status_code == 200
    assert "secret@example.com" in filled.owner.get("/api/v1/users").text


def test_the_owner_s_things_are_as_they_were(filled: Filled) -> None:
    """Whatever the stranger tried."""
    users = {user["id"]: user for user in filled.owner.get("/api/v1/users").json()["items"]}
    assert users[filled.ids["users"]]["grants"][0]["id"] == filled.ids["grants"]
    assert filled.owner.get("/api/v1/session").status_code == 200
    replay = filled.owner.get(f"/api/v1/replays/{filled.ids['replays']}").json()
    assert replay["state"] == "requested"


def test_a_tenant_that_a_request_names_counts_for_nothing(filled: Filled) -> None:
    stranger: httpx.Client = filled.stranger
    headers = {"X-Tenant": "default", "X-Tenant-Id": "default"}
    for path in ("exchanges", "users", "audit/records"):
        answer = stranger.get(f"/api/v1/{path}", params={"tenant": "default"}, headers=headers)
        assert "secret" not in answer.text
    asked = {"email": "eve@x.y", "tenant": "default"}
    assert stranger.post("/api/v1/users", json=asked).status_code == 422


def test_every_table_has_its_tenant_first() -> None:
    platform = {"deployment", "attempts", TENANTS.name}
    assert len(METADATA.tables) > 20
    for table in METADATA.tables.values():
        if table.name not in platform:
            assert next(iter(table.primary_key)).name == "tenant", table.name


def test_proofs_are_of_the_own_log(filled: Filled) -> None:
    own = filled.owner.get("/api/v1/audit/proof/1").text
    other = filled.stranger.get("/api/v1/audit/proof/1").text
    assert "test.example/audit/default" in own
    assert "test.example/audit/other" in other
    assert own.splitlines()[1] != other.splitlines()[1]
