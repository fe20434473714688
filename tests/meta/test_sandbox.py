"""The fences around every test hold."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import settings
from pytest_socket import SocketConnectBlockedError


def test_network_is_blocked() -> None:
    # Not an outside address: should the fence ever be down, nothing leaves this machine.
    with socket.socket() as outside, pytest.raises(SocketConnectBlockedError):
        outside.connect(("127.0.0.2", 9))


def test_loopback_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            client.sendall(b"x")
        accepted, _ = server.accept()
        with accepted:
            assert accepted.recv(1) == b"x"


def test_a_warning_is_an_error() -> None:
    with pytest.raises(DeprecationWarning):
        warnings.warn("old", DeprecationWarning, stacklevel=1)


def test_settings_of_the_user_are_out_of_reach(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Path(os.environ["REENACT_CONFIG_DIR"])
    assert folder.is_relative_to(tmp_path_factory.getbasetemp())
    others = {name for name in os.environ if name.startswith("REENACT_")}
    assert others <= {"REENACT_CONFIG_DIR", "REENACT_SOAK"}


def test_children_inherit_the_clean_environment() -> None:
    code = "import os; print(os.environ['REENACT_CONFIG_DIR'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.stdout.strip() == os.environ["REENACT_CONFIG_DIR"]


def test_laws_have_no_deadline() -> None:
    assert settings().deadline is None
