from __future__ import annotations

import asyncio
import json
from importlib import import_module
from typing import Any

import httpx
import pytest

from tests.integration.exchange.apps import only, replay

django: Any = import_module("django")  # it has no type information
conf: Any = import_module("django.conf")
http: Any = import_module("django.http")
urls: Any = import_module("django.urls")

if not conf.settings.configured:
    conf.settings.configure(
        ALLOWED_HOSTS=["*"], MIDDLEWARE=[], ROOT_URLCONF=__name__, SECRET_KEY="none", USE_TZ=True
    )
    django.setup()


def order(request, number):
    body = json.loads(request.body or b"{}")
    price = httpx.get(f"{UPSTREAM[0]}/{number}").json()["n"]
    return http.JsonResponse({"number": number, "total": price * body.get("amount", 1)})


urlpatterns = [urls.path("shop/", urls.include([urls.path("orders/<int:number>/", order)]))]
UPSTREAM = [""]


def handler(name: str) -> Any:
    return import_module(f"django.core.handlers.{name}")


@pytest.fixture(params=["wsgi", "asgi"])
def served(request, make_agent, upstream):
    """An agent, and a function that makes a request to the Django project behind it."""
    UPSTREAM[0] = upstream.url
    agent = make_agent()
    if request.param == "wsgi":
        transport = httpx.WSGITransport(agent.wsgi(handler("wsgi").WSGIHandler()))

        def ask(target):
            with httpx.Client(transport=transport, base_url="http://app") as client:
                return client.post(target, json={"amount": 3})
    else:
        app = agent.asgi(handler("asgi").ASGIHandler())

        def ask(target):
            async def go():
                asgi = httpx.ASGITransport(app)
                async with httpx.AsyncClient(transport=asgi, base_url="http://app") as client:
                    return await client.post(target, json={"amount": 3})

            return asyncio.run(go())

    return agent, ask


def test_django_reports_route_templates_and_can_be_replayed(served, upstream, tmp_path):
    agent, ask = served
    assert ask("/shop/orders/7/").json()["total"] == 3
    found = only(agent)
    assert found.route_id == "POST /shop/orders/<int:number>/"
    assert found.not_replayable == ""
    assert found.route_id in {route.route_id for route in agent.runner.routes()}
    upstream.asked.clear()
    again = replay(agent, found, tmp_path / "again", ["/body/amount=10"]).exchange
    assert upstream.asked == []
    assert again.result is not None
    assert json.loads(again.result.body.text) == {"number": 7, "total": 10}


def test_a_request_without_a_route_is_marked_as_not_replayable(served):
    agent, ask = served
    assert ask("/nowhere").status_code == 404
    found = only(agent)
    assert found.route_id == "POST (unmatched)"
    assert "matched no route" in found.not_replayable
