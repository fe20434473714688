"""Recordings that lie on a real server or in a real store that speaks S3, and the program of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

import reenact

BUCKET = "recordings"
AGENT = """
import json
import os
import reenact

@reenact.boundary
def ask(question):
    raise AssertionError("asked for real")

def agent(question):
    return ask(question) + "!"

def changed(question):
    return ask(question.replace("1", "one")) + "!"

def order(payload):
    return ask(json.loads(payload["body"]["text"])["amount"])

def tells(question):
    raise RuntimeError(f"I know {os.environ['REENACT_API_KEY']} and {os.environ.get('AWS_SECRET_ACCESS_KEY')}")
"""


@reenact.boundary
def ask(question: str | int) -> str:
    return str(question).upper()


def record(place: Path, number: int, *, tape: bool = False, tail: str = "!") -> Path:
    """One run of ``agentry:agent``, with ``q<number>``; its output ends with ``tail``."""
    where: dict[str, Any] = {"tape" if tape else "capture": place}
    with reenact.session(**where, mode="record") as session:
        session.record_event("run_start", {"input": f"q{number}"})
        output = ask(f"q{number}") + tail
        session.record_event("run_end", {"status": "ok", "output": output})
    return place


@contextmanager
def store() -> Iterator[str]:
    """A store that speaks S3, until the block ends: its address."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def settings(address: str, secret: str = "test") -> dict[str, str]:
    """The environment of somebody who reads there."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": secret,
        "no_proxy": "127.0.0.1",
    }


@contextmanager
def bucket(address: str) -> Iterator[Any]:
    """An empty bucket, until the block ends."""
    client = boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    client.create_bucket(Bucket=BUCKET)
    try:
        yield client
    finally:
        for one in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
            client.delete_object(Bucket=BUCKET, Key=one["Key"])
        client.delete_bucket(Bucket=BUCKET)
        client.close()


def upload(client: Any, place: Path, key: str) -> None:
    """A file, or a folder with all that is in it, as ``aws s3 sync`` does it."""
    files = [place] if place.is_file() else [one for one in place.rglob("*") if one.is_file()]
    for one in files:
        inside = "" if one == place else f"/{one.relative_to(place).as_posix()}"
        client.put_object(Bucket=BUCKET, Key=f"{key}{inside}", Body=one.read_bytes())


def files_of(folder: Path) -> list[str]:
    """What is kept in a cache, without locks."""
    return sorted(one for one in os.listdir(folder) if not one.endswith(".lock"))
