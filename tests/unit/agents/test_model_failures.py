"""What failed calls mean, and what a model is told of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reenact.agents.model_failures import Backoff, classify, error_text, retry_after
from reenact.engine.codecs import RecordedFailure, dump_exception, load_exception


class ApiError(Exception):
    def __init__(self, message: str = "", **given: Any) -> None:
        super().__init__(message)
        self.__dict__.update(given)


class ConnectError(Exception):
    pass


class _Unread:
    status_code = 500

    @property
    def text(self) -> str:
        raise RuntimeError("not read")


@pytest.mark.parametrize(
    "error,kind",
    [
        (ApiError(status_code=429), "retriable"),
        (ApiError(status_code=529), "retriable"),
        (ApiError(response=SimpleNamespace(status_code=503)), "retriable"),
        (ApiError(response=_Unread()), "retriable"),
        (ApiError(status_code=401), "unavailable"),
        (ApiError(status_code=404), "unavailable"),
        (ApiError(status_code=400), "fatal"),
        (ApiError("prompt is too long: 9 tokens", status_code=400), "context_overflow"),
        (ApiError(status_code=400, code="context_length_exceeded"), "context_overflow"),
        (
            ApiError(response=SimpleNamespace(status_code=413, text="exceeds the context window")),
            "context_overflow",
        ),
        (ConnectError("refused"), "retriable"),
        (ConnectionResetError(), "retriable"),
        (TimeoutError(), "retriable"),
        (RecordedFailure("somelib.ReadTimeout", "slow"), "retriable"),
        (TypeError("x"), "fatal"),
        (ApiError("prompt is too long", status_code=500), "retriable"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_kinds_of_failure(error: Exception, kind: str) -> None:
    assert classify(error) == kind


def test_waits_double_up_to_a_limit_and_a_server_may_ask_for_more() -> None:
    backoff = Backoff(delay=0.5, most=3)
    assert [backoff.wait(retry, None) for retry in range(4)] == [0.5, 1, 2, 3]
    assert (backoff.wait(0, 2.5), backoff.wait(0, 99)) == (2.5, 3)


@pytest.mark.parametrize("said,seconds", [("2", 2.0), ("-1", 0.0), ("soon", None), (None, None)])
def test_retry_after_in_seconds(said: str | None, seconds: float | None) -> None:
    headers = {} if said is None else {"retry-after": said}
    assert retry_after(ApiError(response=SimpleNamespace(headers=headers))) == seconds
    assert retry_after(ApiError()) is None


def test_the_text_of_a_failure_is_the_same_where_its_class_is_unknown() -> None:
    known = ApiError("no such day")
    data = {**dump_exception(known), "class": "elsewhere.errors.ApiError"}
    unknown = load_exception(data)
    assert isinstance(unknown, RecordedFailure)
    assert error_text(known) == error_text(unknown) == "ApiError: no such day"
    assert error_text(KeyError()) == "KeyError"
    assert error_text(load_exception({"class": "a.b.Gone"})) == "Gone"
