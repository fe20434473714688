"""MCP messages as calls and as data.

The two major versions of the SDK build messages differently. A request has a number in the present
connection and a permanent position in the recording; progress notifications and late responses
refer to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

from reenact.engine.call import CAPABILITIES, Call, Decision, Reexecute, Serve
from reenact.engine.codecs import PlainCodec, copy_value, dump_exception, load_exception
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.session.session import Session
from reenact.format.canonical import canonical
from reenact.format.event import Data

__all__ = [
    "CLOSED",
    "CODEC",
    "RpcError",
    "Server",
    "Tokens",
    "ask_call",
    "dump_item",
    "error_class",
    "is_answer",
    "is_request",
    "load_item",
    "make_message",
    "messages_call",
    "reply_call",
    "say_call",
    "server_of",
    "told",
]

CLOSED: Data = {"code": -32000, "message": "Connection closed"}
"""Error that the SDK returns to waiting callers when the connection ends."""


def is_request(data: Data) -> bool:
    """Return whether a message is a request that expects a response."""
    return "method" in data and "id" in data


def is_answer(data: Data) -> bool:
    """Return whether a message is a response or an error."""
    return "method" not in data and "id" in data


def dump_item(item: Any) -> Data:
    """Return a message of a transport, or an exception in its place, as plain data."""
    if isinstance(item, BaseException):
        return {"exception": dump_exception(item)}
    found: Data = copy_value(
        item.message.model_dump(by_alias=True, mode="json", exclude_unset=True, warnings=False)
    )
    found.pop("jsonrpc", None)
    return found


def load_item(data: Data) -> Any:
    """Rebuild the item from the result of :func:`dump_item`."""
    if "exception" in data:
        return load_exception(data["exception"])
    return make_message(data)


def make_message(data: Data) -> Any:
    """Return a message for a session or a transport."""
    whole = {"jsonrpc": "2.0", **data}
    wrap: Any = import_module("mcp.shared.message").SessionMessage
    try:
        types: Any = import_module("mcp_types")
    except ModuleNotFoundError:  # major 1
        return wrap(import_module("mcp.types").JSONRPCMessage.model_validate(whole))
    return wrap(types.jsonrpc_message_adapter.validate_python(whole, by_name=False))


def error_class() -> str:
    """Return the name of the exception that the SDK raises for an error response."""
    home: Any = import_module("mcp.shared.exceptions")
    kind: Any = home.MCPError if hasattr(home, "MCPError") else home.McpError
    return f"{kind.__module__}.{kind.__qualname__}"


_STAMP = "io.modelcontextprotocol/serverInfo"


class _Known:
    """The servers of one session, by what they call themselves, and who has which tool."""

    def __init__(self) -> None:
        self.places: defaultdict[str, list[bytes]] = defaultdict(list)
        self.owners: defaultdict[str, set[str]] = defaultdict(set)


_known: WeakKeyDictionary[Session, _Known] = WeakKeyDictionary()


class Server:
    """Server that the program is connected to.

    ``label`` is empty until the server has introduced itself.
    """

    def __init__(self, known: _Known, place: bytes) -> None:
        self.label = ""
        self._known = known
        self._place = place

    def heard(self, method: str, result: Any) -> None:
        """Update the server's name and tools from its response to ``method``."""
        if not isinstance(result, dict):
            return
        if method in ("initialize", "server/discover"):
            self._introduce(_own_name(result))
        elif method == "tools/list":
            for tool in result.get("tools") or ():
                if isinstance(tool, dict):
                    self._known.owners[str(tool.get("name"))].add(self.label)

    def name_of(self, tool: str) -> str:
        """Return ``tool``, or ``server/tool`` if several servers have a tool of that name."""
        if not self.label:
            return tool
        owners = self._known.owners[tool]
        owners.add(self.label)
        return f"{self.label}/{tool}" if len(owners) > 1 else tool

    def _introduce(self, name: str) -> None:
        """Set the label. A different server with the same name gets ``name#2``."""
        if not name:
            return
        places = self._known.places[name]
        if self._place not in places:
            places.append(self._place)
        number = places.index(self._place) + 1
        self.label = name if number == 1 else f"{name}#{number}"


def _own_name(result: Data) -> str:
    meta = result.get("_meta")
    info = result.get("serverInfo") or (meta.get(_STAMP) if isinstance(meta, dict) else None)
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


def server_of(session: Session, request: Data) -> Server:
    """Return the server that the connection request ``request`` leads to."""
    with session.lock:
        known = _known.setdefault(session, _Known())
    return Server(known, canonical(request))


class Tokens:
    """The requests of one connection. Their numbers are another ones in an edited program."""

    def __init__(self) -> None:
        self._numbers: dict[Any, Any] = {}
        self._places: dict[Any, Any] = {}

    def note(self, number: Any, decision: Decision, opened: InFlightCall) -> None:
        """Store that the request ``number`` is the call ``opened``."""
        lane, position = opened.lane.name, opened.position
        if isinstance(decision, Serve | Reexecute):
            lane, position = decision.entry.lane, decision.entry.position
        place = f"{lane}#{position}"
        self._numbers[place], self._places[number] = number, place

    def placed(self, piece: Data) -> Data:
        """Return a received piece in its recorded form."""
        return _replaced(piece, self._places)

    def numbered(self, piece: Data) -> Data:
        """Return a recorded piece in the form for the program."""
        return _replaced(piece, self._numbers)


def _replaced(piece: Data, known: Mapping[Any, Any]) -> Data:
    if is_answer(piece):
        return {**piece, "id": _translated(piece["id"], known)}
    params = piece.get("params")
    if piece.get("method") != "notifications/progress" or not isinstance(params, dict):
        return piece
    token = _translated(params.get("progressToken"), known)
    return {**piece, "params": {**params, "progressToken": token}}


def _translated(token: Any, known: Mapping[Any, Any]) -> Any:
    return known.get(token, token) if isinstance(token, str | int) else token


_SOURCE = "mcp"
_FREE: dict[str, tuple[str, ...]] = {
    "initialize": ("protocolVersion",),
    "notifications/cancelled": ("requestId",),
}
"""Parameters by method that identify the SDK or the request, and are not compared."""


def ask_call(server: Server, data: Data) -> Call:
    """Return the call of a request.

    A tool call is compared by its name and arguments, other requests by method and parameters.
    Request ids and progress tokens are compared as positions.
    """
    params = dict(data.get("params") or {})
    if data["method"] == "tools/call":
        return _tool_call(server, params)
    return _call(server, data["method"], params)


def _tool_call(server: Server, params: Data) -> Call:
    tool = str(params.get("name", ""))
    name = server.name_of(tool)
    args: Data = dict(params.get("arguments") or {})
    if "inputResponses" in params:  # repeated with the input that the server requested
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
    """Return the call of a notification."""
    return _call(server, data["method"], dict(data.get("params") or {}))


def reply_call(server: Server, method: str, data: Data) -> Call:
    """Return the call of a response to a server request. ``method`` is the requested method."""
    kind = "error" if "error" in data else "result"
    return _made(server, method, {kind: copy_value(data.get(kind))})


def messages_call() -> Call:
    """Return the call that listens to the server's own messages, for as long as the connection
    lasts."""
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
    """Error response of the server, or a missing response. ``error`` is passed to the client."""

    def __init__(self, error: Data) -> None:
        super().__init__(str(error.get("message", "")))
        self.error = error


class _Answers(PlainCodec):
    """Codec of results in the form of the protocol: ``{"result": …}`` or ``{"error": …}``."""

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
    """Return the error object of a failed request for the client."""
    if isinstance(error, RpcError):
        return error.error
    return {"code": CLOSED["code"], "message": str(error) or type(error).__name__}
