"""URLs that mean the same are written the same, and others are not."""

from __future__ import annotations

import pytest

from reenact.boundaries.http.urls import normal_url

SAME = {
    "case of scheme and host": ("HTTP://Example.ORG/A", "http://example.org/A"),
    "port that goes without saying": ("https://example.org:443/", "https://example.org/"),
    "port of a websocket": ("wss://example.org:443/", "wss://example.org/"),
    "no path": ("https://example.org", "https://example.org/"),
    "fragment": ("https://example.org/a#b", "https://example.org/a"),
    "credentials": ("https://ann:pw@example.org/", "https://example.org/"),
    "order of parameters": ("https://example.org/?b=1&a=2", "https://example.org/?a=2&b=1"),
    "empty parameters": ("https://example.org/?&a=1&&", "https://example.org/?a=1"),
    "empty query": ("https://example.org/?", "https://example.org/"),
    "plus for a blank": ("https://example.org/?q=a+b", "https://example.org/?q=a%20b"),
    "needless escapes": ("https://example.org/%61%7E?q=%61", "https://example.org/a~?q=a"),
    "case of escapes": ("https://example.org/%c3%bc", "https://example.org/%C3%BC"),
    "letters beyond ASCII": ("https://example.org/ü?q=✓", "https://example.org/%C3%BC?q=%E2%9C%93"),
    "characters that may stand": ("https://example.org/a%40b", "https://example.org/a@b"),
    "international host": ("https://bücher.example/", "https://xn--bcher-kva.example/"),
    "IPv6": ("http://[::1]:80/", "http://[::1]/"),
}

DIFFERENT = {
    "scheme": ("http://example.org/", "https://example.org/"),
    "port": ("http://example.org:8080/", "http://example.org/"),
    "case of the path": ("http://example.org/A", "http://example.org/a"),
    "escaped slash": ("http://example.org/a%2Fb", "http://example.org/a/b"),
    "escaped question mark": ("http://example.org/a%3Fb", "http://example.org/a?b"),
    "order of equal names": ("http://example.org/?a=1&a=2", "http://example.org/?a=2&a=1"),
    "escaped ampersand": ("http://example.org/?a=1%26b=2", "http://example.org/?a=1&b=2"),
    "escaped plus": ("http://example.org/?a=1%2B1", "http://example.org/?a=1+1"),
    "escaped percent": ("http://example.org/%2541", "http://example.org/%41"),
    "equals sign": ("http://example.org/?a", "http://example.org/?a="),
}


@pytest.mark.parametrize("one, other", SAME.values(), ids=SAME.keys())
def test_the_same(one: str, other: str) -> None:
    assert normal_url(one) == normal_url(other)


@pytest.mark.parametrize("one, other", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_not_the_same(one: str, other: str) -> None:
    assert normal_url(one) != normal_url(other)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/path",
        "example.org",
        "http://",
        "http:///path",
        "http://[::1",
        "http://a:99999/",
        "://",
    ],
)
def test_what_cannot_be_read_stays(url: str) -> None:
    assert normal_url(url) == url


def test_a_plain_url_stays() -> None:
    url = "https://example.org:8443/v1/chat/completions;x=1?api-version=2024&q=a/b"
    assert normal_url(url) == url
