"""Every route × everybody × environment × tier × tenant, against the tables of the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest

from reenact.server.auth.permissions import PERMISSIONS, ROLES, Permission, Role, Tier, is_grantable
from reenact.server.endpoint import Endpoint
from reenact.server.routes import ENDPOINTS
from reenact.server.runtime import Limits
from tests.conftest import SOAK
from tests.server import api_table
from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, ask_for, exchange

EXACT, BELOW = api_table.routes()
TABLE = api_table.roles()
ENVIRONMENTS = {"live": "production", "staging": "non-production", "nobody-said": "production"}
TENANTS = ("default", "other")

PEOPLE: dict[str, tuple[str, ...]] = {
    **{role: (role,) for role in ROLES},
    **{one: (one,) for one in PERMISSIONS if is_grantable(one)},
    "nothing": (),
    "all roles but one's own": tuple(role for role in ROLES if role != "production replayer"),
    "reader who replays": ("exchange:read", "replay:execute"),
    "reader who replays in production": ("exchange:read", "replay:execute:production"),
    "replayer, live": ("replayer", "replay:live"),
    "production replayer, live": ("production replayer", "replay:live"),
}

WALKERS = (*PEOPLE, "agent key")
WALKS = [
    (who, tenant)
    for number, who in enumerate(WALKERS)
    for tenant in (TENANTS if SOAK else TENANTS[number % 2 :][:1])
]
STEP = 1 if SOAK else 3
"""In ``make soak`` everybody goes everywhere in each tenant. In ``make test`` everybody goes to
every third route in one of the tenants, and who has one permission also to its routes."""


def route_of(who: str) -> list[Endpoint]:
    """Where ``who`` goes, in this order."""
    last = ("DELETE", "/api/v1/keys/own")  # it ends the key that it is asked with
    turn = WALKERS.index(who)
    ours = [
        one
        for number, one in enumerate(ENDPOINTS)
        if (number + turn) % STEP == 0 or who in ("agent key", *documented(one))
    ]
    return sorted(ours, key=lambda one: (one.method, one.path) == last)


def granted_to(who: str) -> frozenset[str]:
    return TABLE[who] if who == "agent key" else permissions(PEOPLE[who])


def permissions(grants: tuple[str, ...]) -> frozenset[str]:
    """By the table of the documentation."""
    return frozenset().union(*(TABLE.get(one, frozenset({one})) for one in grants))


def documented(endpoint: Endpoint) -> frozenset[str]:
    path = api_table.shape(endpoint.path)
    found = EXACT.get((endpoint.method, path))
    if found is None:
        below = [needs for start, needs in BELOW.items() if path.startswith(start)]
        assert below, f"{endpoint.method} {endpoint.path} is not in {api_table.PAGE.name}"
        (found,) = below
    return found


def declared(endpoint: Endpoint) -> frozenset[str]:
    names = {"open": "open", "known": "–"}
    if isinstance(endpoint.needs, tuple):
        return frozenset(endpoint.needs)
    return frozenset({names.get(endpoint.needs, endpoint.needs)})


def test_every_route_declares_what_it_needs() -> None:
    words = {"open", "known", *PERMISSIONS}
    for endpoint in ENDPOINTS:
        needs = endpoint.needs if isinstance(endpoint.needs, tuple) else (endpoint.needs,)
        assert needs
        assert set(needs) <= words, endpoint


def test_the_documentation_has_every_route_as_it_is() -> None:
    assert {(one.method, one.path): documented(one) for one in ENDPOINTS} == {
        (one.method, one.path): declared(one) for one in ENDPOINTS
    }


def test_every_documented_route_is_there() -> None:
    there = {(one.method, api_table.shape(one.path)) for one in ENDPOINTS}
    assert set(EXACT) <= there


def test_the_documentation_has_every_role_as_it_is() -> None:
    assert set(TABLE) == {*get_args(Role), "agent key"}
    assert {role: TABLE[role] for role in ROLES} == ROLES
    assert TABLE["agent key"] == {"agent:connect"}


def test_no_role_has_everything_and_none_goes_live() -> None:
    everything = frozenset(get_args(Permission))
    for role, has in ROLES.items():
        assert has < everything
        assert "replay:live" not in has
        if "admin" in role:
            assert not {one for one in has if one.startswith("replay:")}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    limits = Limits(replays_per_minute=10**6)
    with running(tmp_path_factory.mktemp("walk"), limits=limits) as house:
        house.tenant("other")
        for tenant in TENANTS:
            house.environment("staging", tenant=tenant)
            house.environment("live", "production", tenant=tenant)
            for environment in ENVIRONMENTS:
                agent = Puppet(
                    house, agent_id=f"at-{environment}", environment=environment, tenant=tenant
                )
                assert agent.register().status_code == 200
                agent.ingest(exchange(f"{tenant}-{environment}"))
        yield house


def ask(client: httpx.Client, endpoint: Endpoint) -> httpx.Response:
    """Something that would be answered with another error than a denial."""
    path = api_table.shape(endpoint.path).replace("{}", "none")
    return client.request(endpoint.method, path)


def expected(endpoint: Endpoint, has: frozenset[str]) -> bool:
    needs = documented(endpoint)
    if (endpoint.method, endpoint.path) == ("POST", "/api/v1/keys/own"):
        return False  # sessions only, and everybody here has a key
    return needs in ({"open"}, {"–"}) or bool(needs & has)


def test_every_route_is_tried_with_and_without_its_permission() -> None:
    tried = {
        (endpoint.method, endpoint.path, expected(endpoint, granted_to(who)))
        for who in WALKERS
        for endpoint in route_of(who)
    }
    for endpoint in ENDPOINTS:
        verdicts = {expected(endpoint, granted_to(who)) for who in WALKERS}
        assert {(endpoint.method, endpoint.path, one) for one in verdicts} <= tried


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("who,tenant", WALKS)
def test_who_gets_in_where(house: House, who: str, tenant: str) -> None:
    if who == "agent key":
        key = house.agent_key(tenant=tenant)
    else:
        key = house.key(*PEOPLE[who], tenant=tenant)
    client, has = house.client(key), granted_to(who)
    found, wanted = {}, {}
    for endpoint in route_of(who):
        answer = ask(client, endpoint)
        name = f"{endpoint.method} {endpoint.path}"
        if endpoint.path != "/signout":  # open, and looks for itself
            assert answer.status_code != 401, name
            found[name] = (
                answer.status_code != 403 or answer.json()["error"]["code"] == "setup_done"
            )
            wanted[name] = expected(endpoint, has)
    assert found == wanted


def test_nobody_gets_in_nowhere(house: House) -> None:
    for key in ("", "rnk_user_x_y", f"rnk_user_{'0' * 26}_{'0' * 64}"):
        client = house.client(key)
        for endpoint in ENDPOINTS:
            if endpoint.needs != "open":
                answer = ask(client, endpoint)
                assert answer.status_code == 401, endpoint
                assert answer.json()["error"]["code"] == "unauthenticated"
                assert answer.headers["www-authenticate"] == "Bearer"


def verdict(
    has: frozenset[str], kind: str, tier: Tier, dedicated: bool, boundaries: str
) -> tuple[int, str]:
    """What the documentation says about a replay."""
    needed = "replay:execute" if kind == "non-production" else "replay:execute:production"
    if not has & {"replay:execute", "replay:execute:production"} or "exchange:read" not in has:
        return 403, "permission_denied"
    if tier not in ("high", "business") or not dedicated:
        return 403, "tier_required"
    if needed not in has:
        production = kind == "production"
        return 403, "production_permission_required" if production else "permission_denied"
    if boundaries != "recorded" and "replay:live" not in has:
        return 403, "live_permission_required"
    return 202, ""


TIERS = [
    pytest.param(
        tier, dedicated, marks=() if dedicated is (tier != "business") else pytest.mark.soak_only
    )
    for tier in get_args(Tier)
    for dedicated in (True, False)
]
"""The lower tiers and "high" with a dedicated app agent, "business" without; ``make soak``: all."""


@pytest.mark.slow
@pytest.mark.parametrize("tier,dedicated", TIERS)
def test_who_may_replay_what_where(house: House, tier: Tier, dedicated: bool) -> None:
    house.set_tier(tier, dedicated)
    house.set_tier("business", tenant="other")
    found: dict[Any, Any] = {}
    wanted: dict[Any, Any] = {}
    for who, grants in PEOPLE.items():
        client, has = house.client(house.key(*grants)), permissions(grants)
        for environment, kind in ENVIRONMENTS.items():
            for boundaries in ("recorded", "live"):
                answer = ask_for(
                    client, f"default-{environment}", reason="asked for", boundaries=boundaries
                )
                error = answer.json().get("error", {}).get("code", "")
                found[who, environment, boundaries] = (answer.status_code, error)
                wanted[who, environment, boundaries] = verdict(
                    has, kind, tier, dedicated, boundaries
                )
            foreign = ask_for(client, f"other-{environment}", reason="asked for")
            assert foreign.status_code == (
                404 if has & {"replay:execute", "replay:execute:production"} else 403
            )
    assert found == wanted


def test_what_the_request_says_of_its_environment_counts_for_nothing(house: House) -> None:
    house.set_tier("business")
    client = house.client(house.key("replayer"))
    target = {"agentId": "at-live"}
    answer = ask_for(client, "default-staging", reason="x", target=target)
    assert answer.json()["error"]["code"] == "production_permission_required"


def test_every_denial_is_on_record(house: House) -> None:
    before = len(house.records("access.denied"))
    client = house.client(house.key("viewer"), **{"User-Agent": "walker"})
    assert client.get("/api/v1/users").status_code == 403
    record = house.records("access.denied")[-1]
    assert len(house.records("access.denied")) == before + 1
    assert record["permission"] == "tenant:admin"
    assert record["code"] == "permission_denied"
    assert record["outcome"] == "denied"
    assert record["actor"]["ua"] == "walker"
    assert record["actor"]["ip"] == "127.0.0.1"
    assert record["details"] == {"route": "GET /api/v1/users"}
