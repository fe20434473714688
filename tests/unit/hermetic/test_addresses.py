"""Addresses as programs write them, and look-ups that ask nobody."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from reenact.hermetic.endpoints import (
    format_address,
    ip_of,
    is_answered_here,
    is_loopback,
    is_reverse_answered_here,
    run_listens,
    run_listens_on_path,
)


@pytest.mark.parametrize(
    "family, address, shown",
    [
        (socket.AF_INET, ("example.com", 80), "example.com:80"),
        (socket.AF_INET, (b"10.0.0.1", 80), "10.0.0.1:80"),
        (socket.AF_INET6, ("::1", 80, 0, 0), "[::1]:80"),
        (socket.AF_UNIX, "/run/door", "/run/door"),
        (socket.AF_UNIX, b"\0hidden", "@hidden"),
        (99, (1, 2), "(1, 2)"),
    ],
    ids=["name", "bytes", "six", "path", "abstract", "other"],
)
def test_an_address_is_written_as_people_do(family: int, address: Any, shown: str) -> None:
    assert format_address(family, address) == shown


@pytest.mark.parametrize(
    "host, loopback",
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", True),
        ("", True),
        ("LOCALHOST", True),
        (b"localhost", True),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("localhost.example.com", False),
    ],
)
def test_what_is_this_machine(host: Any, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_a_name_is_no_address() -> None:
    assert ip_of("example.com") is None
    assert str(ip_of("fe80::1%eth0")) == "fe80::1"


@pytest.mark.parametrize("host", [None, "", "localhost", b"127.0.0.1", "192.0.2.1", "::1"])
def test_look_ups_that_ask_nobody(host: Any) -> None:
    assert is_answered_here(host)


def test_the_machine_knows_its_own_name() -> None:
    assert is_answered_here(socket.gethostname())
    assert is_reverse_answered_here("127.0.0.1")


def test_other_look_ups_ask_somebody() -> None:
    assert not is_answered_here("nobody.invalid")
    assert not is_reverse_answered_here("192.0.2.7")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells who listens")
def test_a_socket_of_this_process_is_not_that_of_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "door"))
        assert not run_listens(server.getsockname()[1])
        assert not run_listens_on_path(str(tmp_path / "door"))
