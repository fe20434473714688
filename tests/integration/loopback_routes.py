"""What the server for aiohttp's programs can do."""

from __future__ import annotations

import asyncio
import gzip
import zlib

from aiohttp import WSMsgType, web

from tests.integration.loopback import Loopback

__all__ = ["ROUTES", "TEXT"]

TEXT = "crab 蟹 " * 200


async def _hello(server: Loopback, request: web.Request) -> web.Response:
    headers = [("X-One", "1"), ("x-two", "a"), ("X-One", "2"), ("Link", '</next>; rel="next"')]
    response = web.Response(text="héllo", headers=headers, reason="Very Well")
    response.set_cookie("seen", "yes")
    return response


async def _echo(server: Loopback, request: web.Request) -> web.Response:
    """What came. Of a multipart body not the boundary, which is another one in each run."""
    body = await request.read()
    if request.content_type.startswith("multipart/"):
        lines = body.split(b"\r\n")
        body = b"\r\n".join(line for line in lines if not line.startswith(b"--"))
    said = {
        "method": request.method,
        "type": request.content_type,
        "length": request.headers.get("Content-Length"),
        "coding": request.headers.get("Content-Encoding"),
        "signed": request.headers.get("X-Signed"),
        "cookies": dict(request.cookies),
        "body": body.decode("latin-1"),
    }
    return web.json_response(said)


async def _encoded(server: Loopback, request: web.Request) -> web.Response:
    coding = request.query["as"]
    data = TEXT.encode()
    packed = gzip.compress(data, mtime=0) if coding == "gzip" else zlib.compress(data)
    headers = {"Content-Encoding": coding, "Content-Type": "text/plain"}
    return web.Response(body=packed, headers=headers)


async def _redirect(server: Loopback, request: web.Request) -> web.Response:
    response = web.Response(status=302, headers={"Location": "/echo"}, text="over there")
    response.set_cookie("hop", "first")
    return response


async def _status(server: Loopback, request: web.Request) -> web.Response:
    return web.Response(status=int(request.query["code"]))


async def _numbered(server: Loopback, request: web.Request) -> web.Response:
    return web.json_response({"number": len(server.asked)})


async def _never(server: Loopback, request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


async def _steps(server: Loopback, request: web.Request) -> web.StreamResponse:
    """A piece for every step that the program takes."""
    response = web.StreamResponse()
    if "packed" in request.query:
        response.enable_compression(web.ContentCoding.gzip)
    await response.prepare(request)
    for number in range(int(request.query.get("of", "4"))):
        await response.write(b"piece %d\n" % number)
        await server.stepped()
    return response


async def _late(server: Loopback, request: web.Request) -> web.StreamResponse:
    """Nothing of the body before the program takes a step."""
    response = web.StreamResponse(headers={"Content-Length": "4"})
    await response.prepare(request)
    await server.stepped()
    await response.write(b"late")
    return response


async def _talk(server: Loopback, request: web.Request) -> web.WebSocketResponse:
    """Greets, pings, says after what it is told, and hangs up when told so."""
    socket = web.WebSocketResponse(protocols=("chat",))
    await socket.prepare(request)
    await socket.send_str(f"hello {len(server.asked)}")
    await socket.ping(b"there?")
    async for message in socket:
        if message.data == "bye":
            await socket.close(code=4000, message=b"done")
        elif message.data == "vanish":
            assert request.transport is not None
            request.transport.abort()
        elif message.type is WSMsgType.TEXT:
            await socket.send_str(f"you said {message.data}")
        else:
            await socket.send_bytes(b"you said " + message.data)
    return socket


async def _mute(server: Loopback, request: web.Request) -> web.WebSocketResponse:
    """Answers no pings."""
    socket = web.WebSocketResponse(autoping=False)
    await socket.prepare(request)
    async for _ in socket:
        pass
    return socket


async def _moved(server: Loopback, request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": "/talk"})


ROUTES = {
    "/hello": _hello,
    "/echo": _echo,
    "/encoded": _encoded,
    "/redirect": _redirect,
    "/status": _status,
    "/numbered": _numbered,
    "/never": _never,
    "/steps": _steps,
    "/late": _late,
    "/talk": _talk,
    "/mute": _mute,
    "/moved": _moved,
}
