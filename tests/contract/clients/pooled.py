"""urllib3, and what is built on it: requests, and the session below boto3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import requests
import urllib3
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session

from tests.contract.clients.face import FIELD, FILE, FORM, PARAMETERS, VALUE, Answer, Pairs
from tests.contract.clients.threads import Threads

__all__ = ["CLIENTS", "Botocore", "Requests", "Urllib3"]


class Requests(Threads):
    """``Session`` of requests."""

    name = "requests"

    @contextmanager
    def opened(self, timeout: float) -> Iterator[Any]:
        with requests.Session() as session:
            session.trust_env = False
            session.timeout = timeout  # type: ignore[attr-defined]  # kept here for the calls
            yield session

    def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        said = {"headers": dict(headers), "data": body, "timeout": client.timeout}
        return _of_requests(client.request(method, url, allow_redirects=False, **said))

    def streamed(self, client: Any, url: str, raw: bool = False) -> AbstractContextManager[Any]:
        return client.get(url, stream=True, timeout=client.timeout)

    def status(self, response: Any) -> int:
        return response.status_code

    def pieces(self, response: Any, raw: bool) -> Iterator[bytes]:
        if raw:
            return response.raw.stream(None, decode_content=False)
        return response.iter_content(None)

    def ask_multipart(self, client: Any, url: str) -> Answer:
        return _of_requests(
            client.post(url, data={FIELD[0]: FIELD[1]}, files={FILE[0]: FILE[1:]}, timeout=20)
        )

    def ask_following(self, client: Any, method: str, url: str) -> list[Answer]:
        response = client.request(method, url, timeout=client.timeout)
        return [_of_requests(one) for one in (*response.history, response)]

    def ask_conveniently(self, client: Any, url: str) -> list[bytes]:
        answers = [
            client.get(url, params=PARAMETERS, timeout=20),
            client.post(url, json=VALUE, timeout=20),
            client.post(url, data=FORM, timeout=20),
        ]
        return [answer.content for answer in answers]

    def brief(self, url: str) -> bytes:
        return requests.get(url, timeout=20).content


def _of_requests(response: Any) -> Answer:
    return Answer(
        status=response.status_code,
        headers=tuple(response.raw.headers.items()),
        body=response.content,
        reason=response.reason,
        version=str(response.raw.version),
    )


class Urllib3(Threads):
    """``PoolManager`` of urllib3."""

    name = "urllib3"
    cannot = frozenset({"history"})

    @contextmanager
    def opened(self, timeout: float) -> Iterator[Any]:
        with urllib3.PoolManager(timeout=timeout, retries=False) as pool:
            yield pool

    def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        return _of_urllib3(client.request(method, url, headers=dict(headers), body=body))

    @contextmanager
    def streamed(self, client: Any, url: str, raw: bool = False) -> Iterator[Any]:
        response = client.request("GET", url, preload_content=False)
        try:
            yield response
        finally:
            response.close()

    def pieces(self, response: Any, raw: bool) -> Iterator[bytes]:
        return response.stream(None, decode_content=not raw)

    def ask_multipart(self, client: Any, url: str) -> Answer:
        fields = {FIELD[0]: FIELD[1], FILE[0]: FILE[1:]}
        return _of_urllib3(client.request("POST", url, fields=fields))

    def ask_following(self, client: Any, method: str, url: str) -> list[Answer]:
        return [_of_urllib3(client.request(method, url, retries=urllib3.Retry(5)))]

    def ask_conveniently(self, client: Any, url: str) -> list[bytes]:
        answers = [
            client.request("GET", url, fields=PARAMETERS),
            client.request("POST", url, json=VALUE),
            client.request("POST", url, fields=FORM, encode_multipart=False),
        ]
        return [answer.data for answer in answers]

    def brief(self, url: str) -> bytes:
        return urllib3.request("GET", url).data


def _of_urllib3(response: Any) -> Answer:
    return Answer(
        status=response.status,
        headers=tuple(response.headers.items()),
        body=response.data,
        reason=response.reason,
        version=str(response.version),
    )


class Botocore(Threads):
    """The HTTP session of botocore, as its endpoints use it."""

    name = "botocore"
    cannot = frozenset({"decode", "follow", "history", "multipart", "reason", "version"})

    @contextmanager
    def opened(self, timeout: float) -> Iterator[Any]:
        session = URLLib3Session(timeout=timeout, proxies={})
        try:
            yield session
        finally:
            session.close()

    def ask(self, client: Any, method: str, url: str, headers: Pairs, body: Any) -> Answer:
        request = AWSRequest(method, url, dict(headers), body)
        response = client.send(request.prepare())
        return Answer(response.status_code, tuple(response.headers.items()), response.content)

    @contextmanager
    def streamed(self, client: Any, url: str, raw: bool = False) -> Iterator[Any]:
        response = client.send(AWSRequest("GET", url, stream_output=True).prepare())
        try:
            yield response
        finally:
            response.raw.close()

    def status(self, response: Any) -> int:
        return response.status_code

    def pieces(self, response: Any, raw: bool) -> Iterator[bytes]:
        return response.raw.stream()

    def ask_multipart(self, client: Any, url: str) -> Answer:
        raise AssertionError("botocore makes no forms")

    def ask_following(self, client: Any, method: str, url: str) -> list[Answer]:
        raise AssertionError("botocore follows its own kind of redirects")

    def ask_conveniently(self, client: Any, url: str) -> list[bytes]:
        text = {"Content-Type": "application/json"}
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        asked = [
            AWSRequest("GET", url, params=PARAMETERS),
            AWSRequest("POST", url, text, json.dumps(VALUE)),
            AWSRequest("POST", url, form, FORM),
        ]
        return [client.send(request.prepare()).content for request in asked]

    def brief(self, url: str) -> bytes:
        return self.fetch("GET", url).body


CLIENTS = (Requests(), Urllib3(), Botocore())
