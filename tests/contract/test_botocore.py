"""boto3 and botocore: against a server that plays S3, and one that streams as Bedrock does."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from moto.server import ThreadedMotoServer

import reenact
from tests.contract.server import Exchange, Handler
from tests.contract.stage import Stage, outcome

_BIG = bytes(range(256)) * 512


def _frame(kind: str, payload: dict[str, Any]) -> bytes:
    """One message of the binary event stream of Amazon."""
    said = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack("!B", len(name))
        + name.encode()
        + struct.pack("!BH", 7, len(value))
        + value.encode()
        for name, value in said.items()
    )
    body = json.dumps(payload).encode()
    lengths = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    message = lengths + struct.pack("!I", zlib.crc32(lengths)) + headers + body
    return message + struct.pack("!I", zlib.crc32(message))


def _model(exchange: Exchange) -> None:
    """``/model/…/converse-stream``: each word comes when the gate opens, cut within a message."""
    exchange.head(
        "200 OK",
        ("Content-Type", "application/vnd.amazon.eventstream"),
        ("Transfer-Encoding", "chunked"),
    )
    exchange.chunk(_frame("messageStart", {"role": "assistant"}))
    for word in ("Hello", " world"):
        exchange.gate.passed()
        frame = _frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}})
        exchange.chunk(frame[:20])
        exchange.chunk(frame[20:])
    exchange.chunk(_frame("messageStop", {"stopReason": "end_turn"}))
    exchange.send(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def own_endpoints() -> dict[str, Handler]:
    return {"/model": _model}


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """The address of an S3 with one bucket, ``shelf``."""
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    with closing(_client("s3", f"http://{host}:{port}")) as s3:
        s3.create_bucket(Bucket="shelf")
    yield f"http://{host}:{port}"
    moto.stop()


def _client(service: str, url: str, secret: str = "testing", **config: Any) -> Any:
    """One that reads no settings of the user, and waits for nobody."""
    settings = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}, **config}
    return boto3.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key=secret,
        config=Config(**settings),
    )


def _both(stage: Stage, program: Callable[[], Any]) -> Any:
    recorded = stage.record(program)
    assert stage.replay(program) == recorded
    return recorded


def test_objects_are_put_and_got(stage: Stage, aws: str) -> None:
    def program(secret: str = "testing") -> Any:
        with closing(_client("s3", aws, secret)) as s3:
            put = s3.put_object(Bucket="shelf", Key="a/book", Body=b"once upon a time")
            s3.put_object(
                Bucket="shelf", Key="a/film", Body=io.BytesIO(_BIG), Metadata={"year": "1"}
            )
            listed = s3.list_objects_v2(Bucket="shelf", Prefix="a/")
            got = s3.get_object(Bucket="shelf", Key="a/book")
            film = s3.get_object(Bucket="shelf", Key="a/film")
            chunks = [len(chunk) for chunk in film["Body"].iter_chunks(50_000)]
            head = s3.head_object(Bucket="shelf", Key="a/film")
            s3.delete_object(Bucket="shelf", Key="a/book")
            return (
                put["ETag"],
                [(one["Key"], one["Size"], one["LastModified"]) for one in listed["Contents"]],
                got["Body"].read(),
                got["ResponseMetadata"],
                chunks,
                head["Metadata"],
            )

    recorded = _both(stage, program)
    assert recorded[2] == b"once upon a time"
    assert sum(recorded[4]) == len(_BIG)
    # Signed with another key, at another time.
    assert stage.replay(lambda: program("another")) == recorded


def test_errors_of_the_service(stage: Stage, aws: str) -> None:
    def program() -> Any:
        with closing(_client("s3", aws)) as s3:
            with pytest.raises(ClientError) as missing:
                s3.get_object(Bucket="shelf", Key="nowhere")
            with pytest.raises(ClientError) as absent:
                s3.head_object(Bucket="shelf", Key="nowhere")
            with pytest.raises(s3.exceptions.NoSuchBucket) as unknown:
                s3.list_objects_v2(Bucket="attic")
        return [(str(one.value), one.value.response["Error"]) for one in (missing, absent, unknown)]

    codes = [error["Code"] for _, error in _both(stage, program)]
    assert codes == ["NoSuchKey", "404", "NoSuchBucket"]


def test_transfers_in_parts_and_threads(stage: Stage, aws: str) -> None:
    def program() -> Any:
        with closing(_client("s3", aws)) as s3:
            parts = boto3.s3.transfer.TransferConfig(multipart_threshold=20_000, max_concurrency=4)
            s3.upload_fileobj(io.BytesIO(_BIG), "shelf", "parts", Config=parts)
            back = io.BytesIO()
            s3.download_fileobj("shelf", "parts", back, Config=parts)
            return back.getvalue()

    assert _both(stage, program) == _BIG


def test_clients_in_threads(stage: Stage, aws: str) -> None:
    def program() -> Any:
        with closing(_client("s3", aws, max_pool_connections=4)) as s3:

            def talk(number: int) -> bytes:
                s3.put_object(Bucket="shelf", Key=f"thread/{number}", Body=b"%d" % number)
                data: bytes = s3.get_object(Bucket="shelf", Key=f"thread/{number}")["Body"].read()
                return data

            with ThreadPoolExecutor(8) as pool:
                return list(pool.map(talk, range(16)))

    assert _both(stage, program) == [b"%d" % number for number in range(16)]


def test_a_stream_of_events_comes_out_as_it_came(stage: Stage) -> None:
    def program() -> Any:
        with closing(_client("bedrock-runtime", stage.url)) as bedrock:
            answer = bedrock.converse_stream(
                modelId="m", messages=[{"role": "user", "content": [{"text": "hi"}]}]
            )
            events = []
            for event in answer["stream"]:
                events.append(event)
                stage.server.gate.open()
            return events, answer["ResponseMetadata"]["HTTPHeaders"]["content-type"]

    events, _ = stage.check(program)
    words = [
        one["contentBlockDelta"]["delta"]["text"] for one in events if "contentBlockDelta" in one
    ]
    assert words == ["Hello", " world"]
    (asked,) = stage.calls()
    assert (asked.data["lens"], asked.data["provider"]) == ("bedrock.converse", "bedrock")
    with reenact.open_recording(stage.folder / "run") as source:
        (answered,) = (event.data for event in source if event.type == "llm_response")
    assert len(answered["response"]["cuts"]) == 5
    assert answered["stopReason"] == "end_turn"


@pytest.mark.parametrize(
    "path, kind",
    [("/drop/head", ConnectionClosedError), ("/slow", ReadTimeoutError)],
    ids=["dropped", "slow"],
)
def test_failures_are_those_of_botocore(stage: Stage, path: str, kind: type[Exception]) -> None:
    def program() -> Any:
        with closing(_client("s3", f"{stage.url}{path}", read_timeout=0.3)) as s3:
            return outcome(lambda: s3.list_objects_v2(Bucket="shelf"))

    assert stage.check(program)[0][0] == f"botocore.exceptions.{kind.__name__}"


def test_nobody_answers(stage: Stage, nobody: int) -> None:
    def program() -> Any:
        with closing(_client("s3", f"http://127.0.0.1:{nobody}")) as s3:
            with pytest.raises(EndpointConnectionError) as failed:
                s3.list_objects_v2(Bucket="shelf")
            return str(failed.value), failed.value.kwargs["endpoint_url"]

    assert "Could not connect" in stage.check(program, reached=False)[0]
