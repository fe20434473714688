"""Flask apps with the middleware: recorded, edited, replayed."""

import json

import flask
import httpx
import pytest

from reenact.exchange import is_replay, step
from reenact.exchange.context import POSITION
from tests.integration.exchange.apps import only, replay


@pytest.fixture
def shop(agent, upstream):
    app = flask.Flask("shop")
    app.wsgi_app = agent.wsgi(app.wsgi_app)  # type: ignore[method-assign]

    @step("price")
    def price(sku):
        return httpx.get(f"{upstream.url}/{sku}").json()["n"]

    @app.post("/orders/<int:order>")
    def post_order(order):
        body = flask.request.get_json()
        answer = flask.jsonify(order=order, price=price(body["sku"]), replay=is_replay())
        answer.headers.add("Set-Cookie", "a=1")
        answer.headers.add("Set-Cookie", "b=2")
        return answer

    @app.get("/stream")
    def get_stream():
        def parts():
            for n in range(3):
                yield f"{n}:{price('s')};"

        return flask.Response(parts(), mimetype="text/plain")

    @app.get("/broken")
    def get_broken():
        raise ValueError("it broke")

    @app.post("/form")
    def post_form():
        return dict(flask.request.form)

    @app.put("/ignored")
    def put_ignored():
        return "not read"

    return app


def test_a_request_is_an_exchange(shop, agent):
    answer = shop.test_client().post("/orders/7?dry=1", buffered=True, json={"sku": "a"})
    assert answer.json == {"order": 7, "price": 1, "replay": False}
    found = only(agent)
    assert found.route_id == "POST /orders/<int:order>"
    assert found.start.properties["http.path"] == "/orders/7"
    assert found.start.properties["http.query"] == "dry=1"
    assert json.loads(found.start.body.text) == {"sku": "a"}
    assert found.result is not None
    assert [name for name, _ in found.result.headers].count("Set-Cookie") == 2
    assert [one.processor_id for one in found.processors] == ["price"]
    assert found.not_replayable == ""
    assert POSITION.get() is None


def test_an_edited_replay_asks_nobody(shop, agent, upstream, tmp_path):
    shop.test_client().post("/orders/7", buffered=True, json={"sku": "a"})
    upstream.asked.clear()
    edits = ["properties.http.path=/orders/8", 'body.note="x"']
    found = replay(agent, only(agent), tmp_path / "again", edits).exchange
    assert upstream.asked == []
    assert found.result is not None
    assert json.loads(found.result.body.text) == {"order": 8, "price": 1, "replay": True}


def test_answers_in_parts_belong_to_the_exchange(shop, agent, upstream, tmp_path):
    answer = shop.test_client().get("/stream", buffered=True)
    assert answer.text == "0:1;1:2;2:3;"
    answer.close()
    source = only(agent)
    assert source.result is not None
    assert source.result.body.text == "0:1;1:2;2:3;"
    assert [one.processor_id for one in source.processors] == ["price"] * 3
    upstream.asked.clear()
    found = replay(agent, source, tmp_path / "again").exchange
    assert upstream.asked == []
    assert found.result == source.result


def test_an_answer_that_nobody_reads_to_its_end(shop, agent):
    answer = shop.test_client().get("/stream", buffered=False)
    assert next(answer.iter_encoded()) == b"0:1;"
    answer.close()
    found = only(agent)
    assert found.status == "failed"
    assert found.error is not None
    assert found.error.message == "the answer breaks off"


def test_an_app_that_fails(shop, agent):
    assert shop.test_client().get("/broken", buffered=True).status_code == 500
    found = only(agent)
    assert found.status == "failed"
    assert found.error is not None
    assert found.error.message == "500 Internal Server Error"


def test_exceptions_pass(shop, agent):
    shop.testing = True
    with pytest.raises(ValueError, match="it broke"):
        shop.test_client().get("/broken", buffered=True)
    found = only(agent)
    assert found.error is not None
    assert found.error.type == "ValueError"


def test_forms_are_texts(shop, agent, tmp_path):
    answer = shop.test_client().post("/form", buffered=True, data={"a": "1", "b": "x y"})
    source = only(agent)
    assert source.start.body.type == "text"
    assert source.start.body.text == "a=1&b=x+y"
    found = replay(agent, source, tmp_path / "again", ["body=a=2"]).exchange
    assert answer.json == {"a": "1", "b": "x y"}
    assert found.result is not None
    assert json.loads(found.result.body.text) == {"a": "2"}


def test_what_the_app_did_not_read_is_not_replayed(shop, agent):
    shop.test_client().put("/ignored", buffered=True, data=b"unread")
    assert "read 0 bytes" in only(agent).not_replayable


def test_no_route_and_the_wrong_method(shop, agent):
    assert shop.test_client().get("/nowhere", buffered=True).status_code == 404
    assert shop.test_client().get("/orders/7", buffered=True).status_code == 405
    assert {one.route_id for one in agent.kept.exchanges()} == {"GET (unmatched)"}
    assert "POST /orders/<int:order>" in {route.route_id for route in agent.runner.routes()}


def test_an_app_that_no_framework_made(agent, tmp_path):
    def app(environ, start_response):
        write = start_response("200 OK", [("Content-Type", "text/plain")])
        write(b"written, ")
        return [environ["wsgi.input"].readline(), *environ["wsgi.input"]]

    from werkzeug.test import Client

    answer = Client(agent.wsgi(app)).post("/x", data=b"one\ntwo\n")
    assert answer.text == "written, one\ntwo\n"
    answer.close()
    found = only(agent)
    assert found.route_id == "POST (unmatched)"
    assert found.result is not None
    assert found.result.body.text == "written, one\ntwo\n"
