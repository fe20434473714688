"""What a client asks and says, as calls; what comes back, as data of events."""

from __future__ import annotations

from typing import Any

from reenact.boundaries.mcp.dialects import CLOSED, error_class
from reenact.boundaries.mcp.names import Server
from reenact.engine.call import CAPABILITIES, Call
from reenact.engine.codecs import PlainCodec, copy_value, dump_exception, load_exception
from reenact.format.event import Data

__all__ = [
    "CODEC",
    "RpcError",
    "ask_call",
    "messages_call",
    "reply_call",
    "say_call",
    "told",
]

_SOURCE = "mcp"
_FREE: dict[str, tuple[str, ...]] = {
    "initialize": ("protocolVersion",),
    "notifications/cancelled": ("requestId",),
}
"""By method: parameters that say which SDK this is, or which request, and not what is asked."""


def ask_call(server: Server, data: Data) -> Call:
    """The call that a request is. A tool is compared by its name and arguments, everything else by
    its method and parameters; the id of a request and the token of its progress are positions."""
    params = dict(data.get("params") or {})
    if data["method"] == "tools/call":
        return _tool_call(server, params)
    return _call(server, data["method"], params)


def _tool_call(server: Server, params: Data) -> Call:
    tool = str(params.get("name", ""))
    name = server.name_of(tool)
    args: Data = dict(params.get("arguments") or {})
    if "inputResponses" in params:  # it is asked again, with what the server wanted to know
        args["inputResponses"] = params["inputResponses"]
    extra: Data = {"server": server.label} if server.label else {}
    return Call(
        type="tool_call",
        capability="tool.call",
        operation=name,
        request={"name": name, "args": copy_value(args)},
        extra=extra,
        nests=True,
    )


def say_call(server: Server, data: Data) -> Call:
    """The call that a notification is."""
    return _call(server, data["method"], dict(data.get("params") or {}))


def reply_call(server: Server, method: str, data: Data) -> Call:
    """The call that answering a request of the server is; ``method`` is what it asked for."""
    kind = "error" if "error" in data else "result"
    return _made(server, method, {kind: copy_value(data.get(kind))})


def messages_call() -> Call:
    """The call that listening to the server is: what it says by itself, for as long as it is there."""
    return Call(
        type="nondeterministic",
        capability=CAPABILITIES[_SOURCE],
        source=_SOURCE,
        operation="messages",
        request={},
    )


def _call(server: Server, method: str, params: Data) -> Call:
    free = {name: params.pop(name) for name in ("_meta", *_FREE.get(method, ())) if name in params}
    request = {"params": copy_value(params)} if params else {}
    return _made(server, method, request, {"sent": copy_value(free)} if free else {})


def _made(server: Server, operation: str, request: Data, extra: Data | None = None) -> Call:
    known: Data = {"server": server.label} if server.label else {}
    return Call(
        type="nondeterministic",
        capability=CAPABILITIES[_SOURCE],
        source=_SOURCE,
        operation=operation,
        request=known | request,
        extra=extra or {},
    )


class RpcError(Exception):
    """The server answered with an error, or not at all; ``error`` is what the client is told."""

    def __init__(self, error: Data) -> None:
        super().__init__(str(error.get("message", "")))
        self.error = error


class _Answers(PlainCodec):
    """Answers are ``{"result": …}`` or ``{"error": …}``, as they stand in the message."""

    def dump(self, call: Call, result: Data) -> Data:
        if "error" in result:
            failed = self.dump_error(call, RpcError(copy_value(result["error"])))
            return {"ok": False, "error": failed} if call.type == "tool_call" else {"error": failed}
        found = copy_value(result.get("result"))
        if call.type != "tool_call":
            facts = {"mcpSessionId": result["sessionId"]} if result.get("sessionId") else {}
            return {"response": found, **facts}
        is_error = isinstance(found, dict) and found.get("isError") is True
        return {"ok": not is_error, "result": found}

    def load(self, call: Call, data: Data) -> Data:
        name = "result" if call.type == "tool_call" else "response"
        return {"result": data.get(name), "sessionId": data.get("mcpSessionId")}

    def returned(self, call: Call, result: Data, data: Data) -> Data:
        return result if "error" in result else self.load(call, data)

    def dump_error(self, call: Call, error: BaseException) -> Data:
        if not isinstance(error, RpcError):
            return dump_exception(error)
        told = {"class": error_class(), "message": str(error), "kind": "failed"}
        return {**told, "rpc": error.error}

    def load_error(self, call: Call, data: Any) -> BaseException:
        said = data.get("rpc") if isinstance(data, dict) else None
        return RpcError(said) if isinstance(said, dict) else load_exception(data)


CODEC = _Answers()


def told(error: Exception) -> Data:
    """What a client is told of a request that failed."""
    if isinstance(error, RpcError):
        return error.error
    return {"code": CLOSED["code"], "message": str(error) or type(error).__name__}
