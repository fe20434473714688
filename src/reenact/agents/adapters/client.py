"""Common base of the adapters: call a client, sync or async, and read its reply or stream."""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, ClassVar

import msgspec

from reenact.agents.messages import Delta, ModelReply, ModelRequest, ToolRequest, Usage
from reenact.errors import UsageError

__all__ = ["ClientModel", "Gathering", "arguments_of", "openai_usage", "plain_of", "written_of"]


class Gathering(ABC):
    """The answer of one call while it is coming, piece by piece."""

    @abstractmethod
    def add(self, piece: dict[str, Any]) -> Delta | None:
        """Add ``piece``, an event of the stream as plain data, and return its delta for observers."""

    @abstractmethod
    def reply(self) -> ModelReply:
        """Return the complete reply, after the last piece."""


class ClientModel(ABC):
    """Model that is called through a synchronous or asynchronous client.

    ``params`` are sent with every call. The parameters of a request override them.
    """

    dialect: ClassVar[str]
    method: ClassVar[str]
    """Dotted path of the called function in the client, such as ``chat.completions.create``."""

    def __init__(self, client: Any, model: str, *, stream: bool = False, **params: Any) -> None:
        self.model = model
        self._create = _function(client, self.method)
        self._stream = stream
        self._params = params

    def __call__(self, request: ModelRequest) -> Any:
        """Call the client.

        Returns a :class:`ModelReply` or an iterator of pieces. With an asynchronous client, the
        reply is awaitable and the iterator asynchronous.
        """
        asked = {**self._params, **self.asked(request), **request.params}
        if self._stream:
            asked = {**asked, **self.streaming()}
        made = self._create(model=self.model, **asked)
        if inspect.isawaitable(made):
            return self._pieces_async(made) if self._stream else self._await(made)
        return self._pieces(made) if self._stream else self._whole(made)

    @abstractmethod
    def asked(self, request: ModelRequest) -> dict[str, Any]:
        """Return the client arguments for ``request``."""

    def streaming(self) -> dict[str, Any]:
        """Return the arguments that request a stream."""
        return {"stream": True}

    @abstractmethod
    def read(self, answer: dict[str, Any]) -> ModelReply:
        """Convert a complete response, as plain data, to a reply."""

    @abstractmethod
    def gathering(self) -> Gathering:
        """Create the collector of one stream."""

    def _whole(self, answer: Any) -> ModelReply:
        return _with_raw(self.read(plain_of(answer)), answer)

    async def _await(self, made: Awaitable[Any]) -> ModelReply:
        return self._whole(await made)

    def _pieces(self, stream: Any) -> Iterator[Delta | ModelReply]:
        gathering = self.gathering()
        try:
            for piece in stream:
                delta = gathering.add(plain_of(piece))
                if delta is not None:
                    yield delta
            yield gathering.reply()
        finally:
            if hasattr(stream, "close"):
                stream.close()

    async def _pieces_async(self, made: Awaitable[Any]) -> AsyncIterator[Delta | ModelReply]:
        stream: Any = await made
        gathering = self.gathering()
        try:
            async for piece in stream:
                delta = gathering.add(plain_of(piece))
                if delta is not None:
                    yield delta
            yield gathering.reply()
        finally:
            closed = stream.close() if hasattr(stream, "close") else None
            if inspect.isawaitable(closed):
                await closed


def _function(client: Any, path: str) -> Callable[..., Any]:
    found = client
    for name in path.split("."):
        found = getattr(found, name, None)
    if not callable(found):
        raise UsageError(
            f"a {type(client).__qualname__} has no {path}(…)",
            hint="give the client object of the SDK that this adapter is for",
        )
    made: Callable[..., Any] = found
    return made


def _with_raw(reply: ModelReply, raw: Any) -> ModelReply:
    return msgspec.structs.replace(reply, raw=raw)


def plain_of(answer: Any) -> dict[str, Any]:
    """Return a client object as plain data, with the field names of the API and without unset
    fields."""
    if isinstance(answer, dict):
        return answer
    dump = getattr(answer, "model_dump", None)
    if dump is None:
        raise UsageError(
            f"the client gave a {type(answer).__qualname__}, which cannot be read",
            hint="the objects of the SDK, or dicts",
        )
    found: dict[str, Any] = dump(mode="json", by_alias=True, exclude_unset=True)
    return found


def arguments_of(written: str) -> dict[str, Any] | None:
    """Parse the arguments that a model wrote.

    Return None if they are not a JSON object, and an empty dict if the text is blank.
    """
    if not written.strip():
        return {}
    try:
        found = json.loads(written)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def written_of(request: ToolRequest) -> str:
    """Return the arguments of a tool call as the model wrote them, or as JSON."""
    return json.dumps(request.arguments or {}) if request.written is None else request.written


def openai_usage(said: Any, sent: str, received: str) -> Usage | None:
    """Read the token counts of an API of OpenAI. ``sent`` and ``received`` are its two names."""
    if not isinstance(said, dict):
        return None
    cached = (said.get(f"{sent}_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(
        input=(said.get(f"{sent}_tokens") or 0) - cached,
        output=said.get(f"{received}_tokens") or 0,
        cache_read=cached,
    )
