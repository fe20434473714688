"""Secrets of an app, planted everywhere: none of them is in any file that the agent writes."""

import asyncio
from base64 import b64encode

import httpx
from fastapi import FastAPI, Request

from reenact.exchange import step
from tests.integration.exchange.apps import only, replay

HEADER = "hdr" + "7Qx2" * 6
COOKIE = "cke" + "9Zw4" * 6
PASSWORD = "pwd" + "3Kv8" * 6
ANSWER = "ans" + "5Rt1" * 6
MESSAGE = "msg" + "6Yb0" * 6
QUERY = "qry" + "2Nf5" * 6
PLANTED = (HEADER, COOKIE, PASSWORD, ANSWER, MESSAGE, QUERY)


def test_nothing_that_is_secret_is_kept(make_agent, upstream, tmp_path):
    agent = make_agent(credentials=lambda path: f"given-for-{path.rpartition('/')[2]}-by-app")
    app = FastAPI()
    app.add_middleware(agent.asgi)
    upstream.answer = {"access_token": ANSWER}

    @step("sign_in")
    async def sign_in(user, password):
        async with httpx.AsyncClient(verify=False) as client:
            answer = await client.post(
                f"{upstream.url}/in?token={QUERY}", json={"user": user, "password": password}
            )
        return answer.json()

    @app.post("/in")
    async def post_in(request: Request):
        body = await request.json()
        found = await sign_in(body["user"], body["password"])
        if request.headers.get("x-fail"):
            raise ValueError(f"refused: password={MESSAGE}")
        return {"token": found["access_token"], "user": body["user"]}

    async def main():
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {HEADER}", "Cookie": f"theme=dark; session={COOKIE}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://shop.test") as client:
            for more in ({}, {"x-fail": "1"}):
                await client.post(
                    f"/in?api_key={QUERY}",
                    json={"user": "ann", "password": PASSWORD},
                    headers={**headers, **more},
                )

    asyncio.run(main())
    good, bad = agent.kept.exchanges()
    assert (good.status, bad.status) == ("completed", "failed")
    for number, source in enumerate((good, bad)):
        for boundaries in ("recorded", "live"):
            place = tmp_path / f"again-{number}-{boundaries}"
            done = replay(agent, source, place, boundaries=boundaries)
            (tmp_path / f"{number}-{boundaries}.txt").write_text(str(done), encoding="utf-8")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 10
    for path in files:
        content = path.read_bytes()
        for secret in PLANTED:
            for form in (secret.encode(), b64encode(secret.encode()).rstrip(b"=")[:-1]):
                assert form not in content, (path, secret[:3])
        assert b"-by-app" not in content, path


def test_what_is_not_secret_is_still_there(make_agent):
    agent = make_agent()

    @agent.route("r")
    def route(message):
        return {"user": message.body["user"]}

    route(
        {"user": "ann", "password": PASSWORD}, headers={"Cookie": f"theme=dark; session={COOKIE}"}
    )
    found = only(agent)
    assert '"user":"ann"' in found.start.body.text
    assert found.start.headers[0][1].startswith("theme=")
