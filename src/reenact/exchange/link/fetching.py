"""What a replay needs from the server: the payload, and the recording of its source."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

import msgspec

from reenact.errors import ReenactError
from reenact.exchange.document import digest_of
from reenact.exchange.link.batches import fault_of
from reenact.exchange.link.limits import Limits
from reenact.exchange.link.transport import Answer, Channel, Unreachable
from reenact.exchange.link.waiting import BackOff
from reenact.exchange.model import Command, Payload, RecordingRef, ReplaySource
from reenact.store.pack import unpack

__all__ = ["Fetcher", "Unavailable", "payload_of", "replay_path"]

T = TypeVar("T")

Wait = Callable[[float], bool]
"""Waits so many seconds, or gives False: there is no time for that."""


class Unavailable(Exception):
    """The source of a replay cannot be had, or is not what was promised."""


def replay_path(agent_id: str, replay_id: str, part: str) -> str:
    """``…/replays/ID/part``"""
    agent, replay = quote(agent_id, safe=""), quote(replay_id, safe="")
    return f"/api/v1/agents/{agent}/replays/{replay}/{part}"


def payload_of(command: Command, source: ReplaySource) -> Payload:
    """What is to be replayed. Raises :class:`Unavailable` when that is not what was signed."""
    payload = command.modified_payload or source.payload
    try:
        found = digest_of(payload)
    except ReenactError as error:
        raise Unavailable(f"the payload cannot be used: {error.message}") from None
    if found != command.payload_digest:
        raise Unavailable("the payload is not the one that the command was signed for")
    return payload


class _NotNow(Exception):
    """The server is away, or cannot at the moment."""

    def __init__(self, why: str, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.retry_after = retry_after


class Fetcher:
    """Of one replay. Not shared by threads. A server that is away, or cannot at the moment, is asked
    again as long as ``wait`` says."""

    def __init__(
        self, channel: Channel, agent_id: str, replay_id: str, limits: Limits, wait: Wait
    ) -> None:
        self._channel = channel
        self._agent_id = agent_id
        self._replay_id = replay_id
        self._limits = limits
        self._wait = wait

    def source(self) -> ReplaySource:
        """Raises :class:`Unavailable`."""
        body = self._get("source", self._limits.source_bytes)
        try:
            return msgspec.json.decode(body, type=ReplaySource)
        except msgspec.MsgspecError as error:
            raise Unavailable(f"the source cannot be read: {error}") from None

    def recording(self, ref: RecordingRef, folder: Path) -> Path:
        """The unpacked capture, in ``folder``, which is there. Raises :class:`Unavailable`; OSError
        when it cannot be written."""
        if ref.size > self._limits.recording_bytes:
            raise Unavailable(f"the recording is larger than {self._limits.recording_bytes} bytes")
        packed, target = folder / "packed", folder / "capture"
        self._again_and_again("recording", lambda: self._download(ref, packed))
        try:
            unpack(packed, target, most=self._limits.unpacked_bytes)
        except ReenactError as error:
            shutil.rmtree(target, ignore_errors=True)
            raise Unavailable(f"the recording cannot be used: {error.code}") from None
        packed.unlink()
        return target

    def _download(self, ref: RecordingRef, packed: Path) -> None:
        streamed = self._channel.stream(
            "GET",
            replay_path(self._agent_id, self._replay_id, "recording"),
            seconds=self._limits.request_seconds,
        )
        found, size = hashlib.sha256(), 0
        with packed.open("wb") as file:
            for piece in streamed.chunks:
                size += len(piece)
                if size > ref.size and streamed.answer.status == 200:
                    self._channel.close()
                    raise Unavailable("the recording is larger than it was said to be")
                found.update(piece)
                file.write(piece)
        _check(streamed.answer)
        if f"sha256:{found.hexdigest()}" != ref.digest:
            raise Unavailable("the recording is not the one that was promised: its digest differs")

    def _get(self, part: str, limit: int) -> bytes:
        path = replay_path(self._agent_id, self._replay_id, part)

        def ask() -> bytes:
            answer = self._channel.request("GET", path, limit=limit)
            _check(answer)
            return answer.body

        return self._again_and_again(part, ask)

    def _again_and_again(self, part: str, work: Callable[[], T]) -> T:
        back_off = BackOff(self._limits)
        while True:
            try:
                return work()
            except Unreachable as error:
                why, pause = str(error), back_off.failed()
            except _NotNow as error:
                why, pause = str(error), back_off.failed(error.retry_after)
            if not self._wait(pause):
                raise Unavailable(f"the {part} cannot be had: {why}")


def _check(answer: Answer) -> None:
    """Raises :class:`_NotNow`, and :class:`Unavailable` for what will not change."""
    if answer.status == 200:
        return
    why = fault_of(answer).message
    if answer.status >= 500 or answer.status == 429:
        raise _NotNow(why, answer.retry_after)
    raise Unavailable(f"the server does not give it: {why}")
