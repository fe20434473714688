"""FastAPI and Starlette apps with the middleware: recorded, edited, replayed."""

import asyncio
import gzip
import json
import threading

import httpx
import pytest
from fastapi import BackgroundTasks, FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from reenact.exchange import choice, correlation, is_replay, loop, step
from reenact.exchange.client.interface import ReplayCancelled
from tests.integration.exchange.apps import check, only, replay


@pytest.fixture
def shop(agent, upstream):
    app = FastAPI()
    app.add_middleware(agent.asgi)

    @step("price")
    async def price(sku, amount):
        async with httpx.AsyncClient(verify=False, timeout=None) as client:
            answer = await client.get(f"{upstream.url}/{sku}?n={amount}", headers=correlation())
        return answer.json()["n"]

    @app.post("/orders/{order}")
    async def post_order(order: str, request: Request):
        body = await request.json()
        prices = [await price(sku, body["amount"]) for sku in loop("items", body["items"])]
        with choice("size") as way:
            size = "big" if way.when("big", body["amount"] > 10) else "small"
        return {"order": order, "prices": prices, "size": size, "replay": is_replay()}

    @app.get("/sync/{sku}")
    def get_sync(sku: str):
        return httpx.get(f"{upstream.url}/{sku}").json()["n"]

    @app.get("/broken")
    async def get_broken():
        await price("x", 1)
        raise ValueError("it broke")

    @app.get("/stream")
    async def get_stream():
        async def parts():
            for n in range(3):
                yield f"{n};"

        return StreamingResponse(parts(), media_type="text/plain")

    @app.post("/later")
    async def post_later(tasks: BackgroundTasks):
        tasks.add_task(price, "later", 1)
        return "soon"

    @app.put("/ignored")
    async def put_ignored():
        return "not read"

    return app


def ask(app, method, path, *, raises=True, **request):
    async def main():
        transport = httpx.ASGITransport(app, raise_app_exceptions=raises)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
            return await client.request(method, path, **request)

    return asyncio.run(main())


ORDER = {"items": ["a", "b"], "amount": 5}


def test_a_request_is_an_exchange(shop, agent):
    answer = ask(shop, "POST", "/orders/7?dry=1", json=ORDER, headers=[("X-A", "1"), ("X-A", "2")])
    assert answer.json() == {"order": "7", "prices": [1, 2], "size": "small", "replay": False}
    found = only(agent)
    assert (found.route_id, found.kind, found.status) == (
        "POST /orders/{order}",
        "http",
        "completed",
    )
    assert found.start.properties["http.path"] == "/orders/7"
    assert found.start.properties["http.query"] == "dry=1"
    assert [value for name, value in found.start.headers if name == "x-a"] == ["1", "2"]
    assert json.loads(found.start.body.text) == ORDER
    assert found.result is not None
    assert found.result.properties == {"http.status": 200}
    assert json.loads(found.result.body.text) == answer.json()
    assert found.not_replayable == ""
    assert [(one.processor_id, one.iteration) for one in found.processors] == [
        ("items", None),
        ("price", 0),
        ("price", 1),
        ("size", None),
    ]
    assert [(one.first_call, one.end_call) for one in found.processors[1:3]] == [(0, 1), (1, 2)]


def test_the_routes_of_an_app_with_their_steps(shop, agent):
    ask(shop, "GET", "/stream")
    routes = {route.route_id: route for route in agent.runner.routes()}
    assert {"POST /orders/{order}", "GET /sync/{sku}", "GET /stream"} <= set(routes)
    assert routes["POST /orders/{order}"].processors == ("price",)
    assert only(agent).revision == routes["GET /stream"].revision


def test_a_replay_runs_the_code_and_asks_nobody(shop, agent, upstream, tmp_path):
    ask(shop, "POST", "/orders/7", json=ORDER)
    upstream.asked.clear()
    source = only(agent)
    found = replay(agent, source, tmp_path / "again", ["body.amount=5"]).exchange
    assert upstream.asked == []
    assert found.result is not None
    assert json.loads(found.result.body.text)["prices"] == [1, 2]
    assert json.loads(found.result.body.text)["replay"] is True
    assert found.replay is not None
    assert (found.replay.served_calls, found.replay.live_calls, found.replay.divergences) == (
        2,
        0,
        (),
    )
    assert found.exchange_id != source.exchange_id
    assert found.trace is not None
    assert source.trace is not None
    assert found.trace.trace_id != source.trace.trace_id
    assert [one.processor_id for one in found.processors] == [
        one.processor_id for one in source.processors
    ]
    assert only(agent) == source


def test_an_edited_replay_takes_another_way_and_says_what_differs(shop, agent, upstream, tmp_path):
    ask(shop, "POST", "/orders/7", json=ORDER)
    upstream.asked.clear()
    found = replay(agent, only(agent), tmp_path / "again", ["body.amount=50"]).exchange
    assert upstream.asked == []
    assert found.result is not None
    assert json.loads(found.result.body.text)["size"] == "big"
    assert found.processors[-1].branch == "big"
    assert found.replay is not None
    assert [one["code"] for one in found.replay.divergences] == ["event_payload_mismatch"] * 2
    assert all("boundaries recorded_then_live" in one["hint"] for one in found.replay.divergences)


def test_a_call_that_was_not_recorded_is_refused(shop, agent, upstream, tmp_path):
    ask(shop, "POST", "/orders/7", json=ORDER)
    upstream.asked.clear()
    found = replay(agent, only(agent), tmp_path / "again", ['body.items=["a","b","c"]']).exchange
    assert upstream.asked == []
    assert found.status == "failed"
    assert found.replay is not None
    assert found.replay.divergences[-1]["code"] == "event_unexpected"
    assert "mode=" not in found.replay.divergences[-1]["hint"]


def test_a_call_that_is_not_made_is_counted(shop, agent, tmp_path):
    ask(shop, "POST", "/orders/7", json=ORDER)
    found = replay(agent, only(agent), tmp_path / "again", ['body.items=["a"]']).exchange
    assert found.replay is not None
    assert found.replay.unused_calls == 1


def test_a_strict_replay_ends_at_the_first_difference(shop, agent, tmp_path):
    ask(shop, "POST", "/orders/7", json=ORDER)
    found = replay(agent, only(agent), tmp_path / "n", ["body.amount=6"], strict=True).exchange
    assert found.status == "failed"
    assert found.error is not None
    assert found.error.type == "reenact.errors.DivergenceError"
    assert found.replay is not None
    assert len(found.replay.divergences) == 1


def test_what_is_missing_is_asked_live_where_that_is_wanted(shop, agent, upstream, tmp_path):
    ask(shop, "POST", "/orders/7", json=ORDER)
    upstream.asked.clear()
    done = replay(
        agent,
        only(agent),
        tmp_path / "again",
        ['body.items=["a","b","c"]'],
        boundaries="recorded_then_live",
    )
    assert upstream.asked == ["/c?n=5"]
    assert done.exchange.replay is not None
    assert (done.exchange.replay.served_calls, done.exchange.replay.live_calls) == (2, 1)
    assert done.capture == tmp_path / "again"
    upstream.asked.clear()
    replay(agent, only(agent), tmp_path / "live", boundaries="live")
    assert upstream.asked == ["/a?n=5", "/b?n=5"]


def test_a_replay_can_be_replayed(shop, agent, upstream, tmp_path):
    ask(shop, "POST", "/orders/7", json=ORDER)
    first = replay(agent, only(agent), tmp_path / "data" / "captures" / "second")
    first_id = first.exchange.exchange_id
    (tmp_path / "data" / "captures" / "second").rename(tmp_path / "data" / "captures" / first_id)
    upstream.asked.clear()
    found = replay(agent, first.exchange, tmp_path / "third", depth=2).exchange
    assert upstream.asked == []
    assert found.replay is not None
    assert found.replay.depth == 2
    assert found.result == first.exchange.result


def test_synchronous_endpoints_in_threads(shop, agent, upstream, tmp_path):
    assert ask(shop, "GET", "/sync/a").json() == 1
    upstream.asked.clear()
    found = replay(agent, only(agent), tmp_path / "again").exchange
    assert upstream.asked == []
    assert found.result is not None
    assert found.result.body.text == "1"


def test_an_app_that_fails_fails_as_before(shop, agent, tmp_path):
    with pytest.raises(ValueError, match="it broke"):
        ask(shop, "GET", "/broken")
    source = only(agent)
    assert source.status == "failed"
    assert source.error is not None
    assert (source.error.type, source.error.message) == ("ValueError", "it broke")
    assert source.result is None
    again = replay(agent, source, tmp_path / "again").exchange
    assert again.error == source.error


def test_answers_in_parts_and_background_tasks(shop, agent):
    assert ask(shop, "GET", "/stream").text == "0;1;2;"
    ask(shop, "POST", "/later")
    stream, later = agent.kept.exchanges()
    assert stream.result is not None
    assert stream.result.body.text == "0;1;2;"
    assert [one.processor_id for one in later.processors] == ["price"]


def test_what_the_app_did_not_read_is_not_replayed(shop, agent):
    ask(shop, "PUT", "/ignored", content=b"unread")
    assert only(agent).not_replayable == "the app read 0 bytes of its body, and not the rest"


def test_a_path_that_is_no_route(shop, agent):
    assert ask(shop, "GET", "/nowhere").status_code == 404
    assert only(agent).route_id == "GET (unmatched)"
    refusal = check(agent, only(agent))
    assert refusal is not None
    assert refusal.code == "route_unknown"


def test_an_edit_that_leads_elsewhere_is_refused(shop, agent):
    ask(shop, "GET", "/sync/a")
    refusal = check(agent, only(agent), ["properties.http.path=/stream"])
    assert refusal is not None
    assert (refusal.code, refusal.message) == (
        "not_replayable",
        "its path leads to GET /stream now",
    )


def test_large_bodies_pass_and_are_not_kept(make_agent):
    agent = make_agent(max_body=1_000)

    async def echo(request):
        return Response(await request.body(), media_type="text/plain")

    app = Starlette(routes=[Route("/echo", echo, methods=["POST"])])
    data = b"x" * 3_000_000
    assert ask(agent.asgi(app), "POST", "/echo", content=data).content == data
    found = only(agent)
    assert found.start.body.clipped == len(data)
    assert "3,000,000 bytes" in found.not_replayable
    assert found.result is not None
    assert found.result.body.clipped == len(data)
    refusal = check(agent, found)
    assert refusal is not None
    assert refusal.code == "not_replayable"


def test_compressed_bodies_are_readable_and_sent_as_they_came(agent, tmp_path):
    seen = []

    async def echo(request):
        seen.append(await request.body())
        return Response(gzip.compress(b'{"ok":1}'), headers={"content-encoding": "gzip"})

    app = agent.asgi(Starlette(routes=[Route("/echo", echo, methods=["POST"])]))
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    ask(app, "POST", "/echo", content=gzip.compress(b'{"amount":1}'), headers=headers)
    assert only(agent).start.body.text == '{"amount":1}'
    replay(agent, only(agent), tmp_path / "again", ["body.amount=2"])
    assert [gzip.decompress(one) for one in seen] == [b'{"amount":1}', b'{"amount":2}']


def test_mounted_apps_and_heads(agent):
    async def item(request):
        return PlainTextResponse(str(request.path_params["id"]))

    inner = Mount("/api/{version}", routes=[Route("/items/{id:int}", item)])
    app = agent.asgi(Starlette(routes=[inner]))
    assert ask(app, "HEAD", "/api/v1/items/5").status_code == 200
    found = only(agent)
    assert found.route_id == "HEAD /api/{version}/items/{id:int}"
    assert found.result is not None
    assert found.result.body.type == "none"


def test_a_client_that_hangs_up(agent):
    async def read(request):
        return Response(await request.body())

    app = agent.asgi(Starlette(routes=[Route("/read", read, methods=["POST"])]))
    came = [
        {"type": "http.request", "body": b"half", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return came.pop(0)

    async def send(message):
        """Nobody is there."""

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/read",
        "headers": [(b"content-length", b"8")],
        "query_string": b"",
    }
    with pytest.raises(ClientDisconnect):
        asyncio.run(app(scope, receive, send))
    found = only(agent)
    assert found.status == "failed"
    assert found.not_replayable == "the app read 4 bytes of its body, and not the rest"


def test_web_sockets_pass(agent):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    asyncio.run(agent.asgi(app)({"type": "websocket"}, None, None))
    assert seen == ["websocket"]
    assert agent.kept.exchanges() == []


def test_an_app_that_no_framework_made(agent, tmp_path):
    async def app(scope, receive, send):
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 503, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    assert ask(agent.asgi(app), "GET", "/x").status_code == 503
    found = only(agent)
    assert (found.route_id, found.status) == ("GET (unmatched)", "failed")
    assert found.error is not None
    assert found.error.message == "503 Service Unavailable"


def test_traces_of_callers_are_followed(shop, agent):
    trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"traceparent": f"00-{trace}-{span}-01", "x-correlation-id": "order-7"}
    ask(shop, "GET", "/stream", headers=headers)
    found = only(agent)
    assert found.trace is not None
    assert (found.trace.trace_id, found.trace.parent_span_id) == (trace, span)
    assert found.correlation_id == "order-7"


def test_a_hundred_at_once_are_not_mixed(shop, agent, tmp_path):
    async def main():
        transport = httpx.ASGITransport(shop)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
            return await asyncio.gather(
                *(
                    client.post(f"/orders/{n}", json={"items": [f"s{n}"], "amount": n})
                    for n in range(100)
                )
            )

    answers = asyncio.run(main())
    found = {one.start.properties["http.path"]: one for one in agent.kept.exchanges()}
    assert len(found) == 100
    for n, answer in enumerate(answers):
        one = found[f"/orders/{n}"]
        assert one.result is not None
        assert json.loads(one.result.body.text) == answer.json()
        assert one.not_replayable == ""
        assert one.processors[1].input == {"sku": f"s{n}", "amount": n}
    again = replay(agent, found["/orders/42"], tmp_path / "again").exchange
    assert again.result is not None
    assert json.loads(again.result.body.text)["prices"] == answers[42].json()["prices"]
    assert again.replay is not None
    assert again.replay.divergences == ()


def test_a_replay_that_is_cancelled(agent, tmp_path):
    began = threading.Event()
    ended = []

    async def slow(request):
        if is_replay():
            began.set()
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise
        return PlainTextResponse("done")

    app = agent.asgi(Starlette(routes=[Route("/slow", slow)]))
    ask(app, "GET", "/slow")
    cancelled = threading.Event()
    watching = threading.Thread(target=_pass_on, args=(began, cancelled))
    watching.start()
    with pytest.raises(ReplayCancelled):
        replay(agent, only(agent), tmp_path / "again", cancelled=cancelled)
    watching.join()
    assert ended == ["cancelled"]


def test_a_task_that_outlives_its_request_goes_on(agent, upstream):
    tasks = []

    async def start(request):
        go = asyncio.Event()

        async def late():
            await go.wait()
            async with httpx.AsyncClient(verify=False, timeout=None) as client:
                return (await client.get(f"{upstream.url}/late")).json()["path"]

        tasks.append((asyncio.create_task(late()), go))
        return PlainTextResponse("started")

    app = agent.asgi(Starlette(routes=[Route("/start", start)]))

    async def main():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
            await client.get("/start")
        task, go = tasks[0]
        go.set()
        return await task

    assert asyncio.run(main()) == "/late"
    assert only(agent).status == "completed"


def _pass_on(one, other):
    one.wait(30)
    other.set()
