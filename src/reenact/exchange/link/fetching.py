"""What a replay needs from the server: the payload, and the recording of its source."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from urllib.parse import quote

import msgspec

from reenact.errors import ReenactError
from reenact.exchange.document import digest_of
from reenact.exchange.link.batches import fault_of
from reenact.exchange.link.limits import Limits
from reenact.exchange.link.transport import Channel, Unreachable
from reenact.exchange.model import Command, Payload, RecordingRef, ReplaySource
from reenact.store.pack import unpack

__all__ = ["Fetcher", "Unavailable", "payload_of", "replay_path"]

_TRIES = 3


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


class Fetcher:
    """Of one replay. Not shared by threads."""

    def __init__(self, channel: Channel, agent_id: str, replay_id: str, limits: Limits) -> None:
        self._channel = channel
        self._agent_id = agent_id
        self._replay_id = replay_id
        self._limits = limits

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
        for left in reversed(range(_TRIES)):
            try:
                self._download(ref, packed)
                break
            except Unreachable as error:
                if not left:
                    raise Unavailable(f"the recording cannot be had: {error}") from None
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
        self._check(streamed.answer.status, f"sha256:{found.hexdigest()}", ref)

    @staticmethod
    def _check(status: int, digest: str, ref: RecordingRef) -> None:
        if status >= 500 or status == 429:
            raise Unreachable(f"the server answers {status}")
        if status != 200:
            raise Unavailable(f"the server has no recording ({status})")
        if digest != ref.digest:
            raise Unavailable("the recording is not the one that was promised: its digest differs")

    def _get(self, part: str, limit: int) -> bytes:
        path = replay_path(self._agent_id, self._replay_id, part)
        why = ""
        for _ in range(_TRIES):
            try:
                answer = self._channel.request("GET", path, limit=limit)
            except Unreachable as error:
                why = str(error)
                continue
            if answer.status == 200:
                return answer.body
            why = fault_of(answer).message
            if answer.status < 500 and answer.status != 429:
                break
        raise Unavailable(f"the {part} cannot be had: {why}")
