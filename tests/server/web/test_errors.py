"""Links that lead nowhere, and servers that fail, in a browser: a page says so, and leads back."""

from __future__ import annotations

import httpx
import pytest

from tests.server.databases import raw
from tests.server.house import House

HTML = {"Accept": "text/html,application/xhtml+xml"}


def _page_of(answer: httpx.Response, status: int, title: str) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "text/html; charset=utf-8",
    )
    assert f"<h1>{title}</h1>" in answer.text
    assert f"Request {answer.headers['x-request-id']}" in answer.text
    assert '<a href="/">To the start</a>' in answer.text
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    return answer.text


def test_a_link_that_leads_nowhere_is_told_on_a_page(house: House) -> None:
    stranger, known = house.client(**HTML), house.client(house.key("viewer"), **HTML)
    assert "Sections" not in _page_of(stranger.get("/nowhere/<b>"), 404, "Not found")
    assert "Sections" in _page_of(known.get("/nowhere/<b>"), 404, "Not found")
    assert "<b>" not in known.get("/nowhere/<b>").text
    answer = stranger.post("/healthz")
    _page_of(answer, 405, "Not like this")
    assert "GET" in answer.headers["allow"]


def test_a_credential_that_is_not_good_any_more_is_no_other_problem(house: House) -> None:
    client = house.client("rnk_user_nobody_0", **HTML)
    assert "Sections" not in _page_of(client.get("/nowhere"), 404, "Not found")


@pytest.mark.parametrize("path", ["/api/nowhere", "/api/v1/nowhere", "/v1/nowhere"])
def test_programs_get_json_whatever_they_accept(house: House, path: str) -> None:
    answer = house.client(**HTML).get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.sqlite_file
def test_a_server_that_fails_says_so_on_a_page(house: House) -> None:
    client = house.client(house.key("viewer"), **HTML)
    with raw(house.server.data) as connection:
        connection.execute("ALTER TABLE exchanges RENAME TO elsewhere")
    try:
        said = _page_of(client.get("/exchanges"), 500, "Something broke")
        assert "its log has the request id" in said
        assert "elsewhere" not in said
        assert client.get("/api/v1/exchanges").json()["error"]["code"] == "internal"
    finally:
        with raw(house.server.data) as connection:
            connection.execute("ALTER TABLE elsewhere RENAME TO exchanges")
