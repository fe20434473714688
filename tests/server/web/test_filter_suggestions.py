"""What filters offer: what agents have named, as far as one may see it, and what was found."""

from __future__ import annotations

from reenact.server.auth.permissions import Grant
from tests.server.house import House
from tests.server.traffic.puppet import Puppet, exchange
from tests.server.web.pages import HTML, offered


def test_apps_and_environments_are_offered_that_have_sent_nothing_yet(house: House) -> None:
    house.environment("staging")
    for number, (app, place) in enumerate((("shop", "staging"), ("bank", "live"))):
        agent = Puppet(house, agent_id=f"agent-{number}", app=app, environment=place)
        assert agent.register().status_code == 200
    agent.ingest(exchange())
    client = house.client(house.key("viewer"), **HTML)
    page = client.get("/exchanges").text
    assert offered(page, "app") == ["bank", "shop"]
    assert offered(page, "environment") == ["live", "staging"]
    limited = house.client(house.key(Grant("viewer", app="bank")), **HTML)
    assert offered(limited.get("/exchanges").text, "app") == ["bank"]
    blind = house.client(house.key(Grant("exchange:read")), **HTML)
    assert offered(blind.get("/exchanges").text, "app") == ["bank"]  # what was found


def test_other_tenants_are_not_offered(house: House) -> None:
    house.tenant("other")
    agent = Puppet(house, app="secret", tenant="other")
    assert agent.register().status_code == 200
    house.environment("staging")
    mine = Puppet(house, agent_id="mine")
    mine.register()
    mine.ingest(exchange())
    client = house.client(house.key("viewer"), **HTML)
    assert offered(client.get("/exchanges").text, "app") == ["shop"]


def test_the_log_offers_environments(house: House) -> None:
    house.environment("staging")
    client = house.client(house.key("tenant admin"), **HTML)
    assert offered(client.get("/audit").text, "environment") == ["staging"]
