"""The server starts, says so, and answers in one shape."""

from __future__ import annotations

from tests.server.house import House


def test_it_is_there(house: House) -> None:
    client = house.client()
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}


def test_what_is_not_there_is_told_in_the_one_shape(house: House) -> None:
    client = house.client()
    answer = client.get("/nowhere")
    assert answer.status_code == 404
    assert answer.json() == {
        "error": {
            "code": "not_found",
            "message": "there is nothing here",
            "hint": "",
            "details": {},
            "requestId": answer.headers["x-request-id"],
        }
    }
    answer = client.post("/healthz")
    assert answer.status_code == 405
    assert answer.json()["error"]["code"] == "method_not_allowed"
    assert "GET" in answer.headers["allow"]


def test_every_answer_has_the_headers_that_browsers_obey(house: House) -> None:
    for path in ("/healthz", "/nowhere"):
        headers = house.client().get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
