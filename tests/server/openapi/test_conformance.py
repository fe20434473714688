"""The running server answers as its description says: no 5xx, nothing that is not documented.

Schemathesis makes the requests: what fits the description, and what does not. Bounded and the same
every time; `make soak` tries more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import hypothesis
import msgspec
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from reenact.server.auth.permissions import PERMISSIONS, is_grantable
from reenact.server.openapi import describe
from reenact.server.routes import ENDPOINTS
from reenact.server.runtime import Limits
from tests.conftest import SOAK
from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, ask_for, exchange


def operations(description: dict[str, Any]) -> dict[str, Any]:
    """By method and path. Raises for a description that is none."""
    schema = schemathesis.openapi.from_dict(description)
    found: list[Any] = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    return {f"{one.method.upper()} {one.path}": one for one in found}


OPERATIONS = operations(describe(ENDPOINTS, "test.example"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 60 if SOAK else 3
LINES = "application/x-ndjson"
PROTOBUF = "application/x-protobuf"


@schemathesis.serializer(LINES, PROTOBUF)
def as_bytes(_: schemathesis.SerializationContext, value: Any) -> bytes:
    """Anything at all."""
    return value if isinstance(value, bytes) else msgspec.json.encode(value)


def can_be_wrong(operation: Any) -> bool:
    """Is there anything that a request could get wrong?"""
    return bool(operation.definition.raw["parameters"] or operation.body)


TRIED = [
    (name, mode)
    for name, operation in sorted(OPERATIONS.items())
    for mode in ("positive", "negative")
    if mode == "positive" or can_be_wrong(operation)
]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    limits = Limits(replays_per_minute=10**6)
    with running(tmp_path_factory.mktemp("described"), limits=limits) as house:
        house.environment("staging")
        agent = Puppet(house)
        agent.register()
        agent.ingest(exchange())
        assert ask_for(house.client(house.key("replayer"))).status_code == 202
        yield house


def everything(house: House) -> str:
    """A key that may do anything but go on forever as an agent."""
    return house.key(*(one for one in PERMISSIONS if is_grantable(one)))


def test_there_is_something_to_try() -> None:
    assert len(OPERATIONS) > 60


@pytest.mark.soak
@pytest.mark.thinned(2)
@pytest.mark.parametrize("name, mode", TRIED)
def test_answers_are_as_described(house: House, name: str, mode: str) -> None:
    operation = OPERATIONS[name]
    generation = schemathesis.GenerationMode(mode)
    agents = "agent:connect" in operation.definition.raw.get("x-permissions", [])
    key = house.agent_key("shop", "staging") if agents else everything(house)

    @hypothesis.given(case=operation.as_strategy(generation_mode=generation))
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def holds(case: schemathesis.Case) -> None:
        case.call_and_validate(
            base_url=house.url, headers={"Authorization": f"Bearer {key}"}, checks=CHECKS
        )

    holds()


def test_a_real_answer_of_each_kind_fits(house: House) -> None:
    """What schemathesis does not hit by chance: ids that exist."""
    client = house.client(everything(house))
    replay = client.get("/api/v1/replays").json()["items"][0]["replayId"]
    paths = {
        "/api/v1/exchanges/{id}": {"id": "ex-1"},
        "/api/v1/exchanges/{id}/calls": {"id": "ex-1"},
        "/api/v1/exchanges/{id}/lineage": {"id": "ex-1"},
        "/api/v1/exchanges/{id}/correlation": {"id": "ex-1"},
        "/api/v1/exchanges/{a}/diff/{b}": {"a": "ex-1", "b": "ex-1"},
        "/api/v1/replays/{id}": {"id": replay},
        "/api/v1/replays/{id}/proof": {"id": replay},
        "/api/v1/audit/proof/{seq}": {"seq": "0"},
    }
    for path, parts in paths.items():
        case = OPERATIONS[f"GET {path}"].Case(path_parameters=parts)
        response = case.call(base_url=house.url, headers=dict(client.headers))
        assert response.status_code == 200, path
        case.validate_response(response, checks=CHECKS)


def test_a_wrong_description_would_be_noticed(house: House) -> None:
    raw = describe(ENDPOINTS, "test.example")
    raw["paths"]["/healthz"]["get"]["responses"] = {"418": {"description": "tea"}}
    operation = operations(raw)["GET /healthz"]
    with pytest.raises(FailureGroup, match="Undocumented status code"):
        operation.Case().call_and_validate(base_url=house.url, checks=CHECKS)
    assert httpx.get(f"{house.url}/healthz", trust_env=False).status_code == 200
