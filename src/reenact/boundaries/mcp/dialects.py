"""Messages as the SDK has them, and as data: the two majors differ in how a message is built."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from reenact.engine.codecs import copy_value, dump_exception, load_exception
from reenact.format.event import Data

__all__ = [
    "CLOSED",
    "dump_item",
    "error_class",
    "is_answer",
    "is_request",
    "load_item",
    "make_message",
]

CLOSED: Data = {"code": -32000, "message": "Connection closed"}
"""What the SDK itself says to who waits for an answer when the connection ends."""


def is_request(data: Data) -> bool:
    """Does it want an answer?"""
    return "method" in data and "id" in data


def is_answer(data: Data) -> bool:
    """Does it answer a request, well or badly?"""
    return "method" not in data and "id" in data


def dump_item(item: Any) -> Data:
    """What a transport gave, or is given: a message, or an exception that stands for one."""
    if isinstance(item, BaseException):
        return {"exception": dump_exception(item)}
    found: Data = copy_value(
        item.message.model_dump(by_alias=True, mode="json", exclude_unset=True, warnings=False)
    )
    found.pop("jsonrpc", None)
    return found


def load_item(data: Data) -> Any:
    """What :func:`dump_item` has made ``data`` of."""
    if "exception" in data:
        return load_exception(data["exception"])
    return make_message(data)


def make_message(data: Data) -> Any:
    """A message for a session, or for a transport."""
    whole = {"jsonrpc": "2.0", **data}
    wrap: Any = import_module("mcp.shared.message").SessionMessage
    try:
        types: Any = import_module("mcp_types")
    except ModuleNotFoundError:  # major 1
        return wrap(import_module("mcp.types").JSONRPCMessage.model_validate(whole))
    return wrap(types.jsonrpc_message_adapter.validate_python(whole, by_name=False))


def error_class() -> str:
    """What the SDK raises when a server answers with an error."""
    home: Any = import_module("mcp.shared.exceptions")
    kind: Any = home.MCPError if hasattr(home, "MCPError") else home.McpError
    return f"{kind.__module__}.{kind.__qualname__}"
