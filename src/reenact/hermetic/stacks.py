"""The network stacks that are known, and what is known of them.

Three kinds. *Covered* ones have a boundary, or stand on one that has (``httplib2`` is made of
``http.client``). *Seen* ones have none, but make their connections through Python's ``socket``,
where the guard sees them. *Unseen* ones connect in C, C++, Rust or Go, out of sight of any hook.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Final, Literal

import msgspec

from reenact.hermetic.origin import is_importing

__all__ = ["ABOVE", "STACKS", "Stack", "StackWatch", "imported", "installed", "is_covered"]


class Stack(msgspec.Struct, frozen=True):
    """``module`` is what a program imports, ``name`` what people call it."""

    module: str
    name: str
    kind: Literal["seen", "unseen"]


_UNSEEN = {
    "MySQLdb": "mysqlclient",
    "_mysql_connector": "mysql-connector in C",
    "_pg": "PyGreSQL",
    "confluent_kafka": "confluent-kafka (librdkafka)",
    "couchbase": "couchbase",
    "curl_cffi": "curl_cffi (libcurl)",
    "cx_Oracle": "cx_Oracle",
    "grpc": "grpc",
    "hf_transfer": "hf_transfer",
    "hf_xet": "hf_xet",
    "ibm_db": "ibm_db",
    "ldap": "python-ldap (libldap)",
    "primp": "primp",
    "psycopg": "psycopg (libpq)",
    "psycopg2": "psycopg2 (libpq)",
    "pulsar": "pulsar-client",
    "pycares": "pycares (c-ares)",
    "pycurl": "pycurl (libcurl)",
    "pylibmc": "pylibmc",
    "pymssql": "pymssql (FreeTDS)",
    "pyodbc": "pyodbc",
    "pyreqwest": "pyreqwest",
    "ray": "ray",
    "rnet": "rnet",
    "tls_client": "tls_client",
    "uvloop": "uvloop",
    "winloop": "winloop",
    "zmq": "pyzmq (libzmq)",
}
_SEEN = {
    "aio_pika": "aio-pika",
    "aioftp": "aioftp",
    "aiokafka": "aiokafka",
    "aiomysql": "aiomysql",
    "aioquic": "aioquic",
    "aiosmtplib": "aiosmtplib",
    "amqp": "py-amqp",
    "asyncmy": "asyncmy",
    "asyncpg": "asyncpg",
    "asyncssh": "asyncssh",
    "cassandra": "cassandra-driver",
    "clickhouse_driver": "clickhouse-driver",
    "dns": "dnspython",
    "ftplib": "ftplib",
    "imaplib": "imaplib",
    "kafka": "kafka-python",
    "ldap3": "ldap3",
    "mysql.connector": "mysql-connector",
    "nats": "nats-py",
    "neo4j": "neo4j",
    "niquests": "niquests",
    "nntplib": "nntplib",
    "oracledb": "oracledb",
    "paho.mqtt": "paho-mqtt",
    "paramiko": "paramiko",
    "pg8000": "pg8000",
    "pika": "pika",
    "poplib": "poplib",
    "pymemcache": "pymemcache",
    "pymongo": "pymongo",
    "pymysql": "PyMySQL",
    "redis": "redis",
    "smtplib": "smtplib",
    "stomp": "stomp.py",
    "telnetlib": "telnetlib",
    "thrift": "thrift",
    "tornado.iostream": "tornado",
    "twisted.internet": "twisted",
    "urllib3_future": "urllib3.future",
    "valkey": "valkey",
    "websocket": "websocket-client",
    "websockets.legacy": "websockets (legacy)",
}
ABOVE: Final = {
    "httplib2": "http.client",
    "urllib.request": "http.client",
    "xmlrpc.client": "http.client",
    "boto3": "botocore",
}
"""Known libraries that are covered because of what they stand on."""

STACKS: Final = {
    **{module: Stack(module, name, "seen") for module, name in _SEEN.items()},
    **{module: Stack(module, name, "unseen") for module, name in _UNSEEN.items()},
}
"""Seen and unseen ones, by what is imported."""


def is_covered(module: str, covered: Collection[str]) -> bool:
    """Is one of the modules ``covered``, which have a boundary, this one or a part of it?"""
    return any(one == module or one.startswith(f"{module}.") for one in covered)


def installed(covered: Collection[str]) -> list[Stack]:
    """The stacks without a boundary that could be imported, but for parts of Python itself and of
    covered libraries."""
    known = {one.partition(".")[0] for one in covered} | sys.stdlib_module_names
    tops = {module: module.partition(".")[0] for module in STACKS}
    present = [
        module for module, top in tops.items() if top not in known and find_spec(top) is not None
    ]
    return imported(covered, present)


def imported(covered: Collection[str], modules: Iterable[str] | None = None) -> list[Stack]:
    """The stacks without a boundary that have been imported, by name.

    ``covered`` are modules that have a boundary; ``modules`` is what has been imported.
    """
    present = sys.modules if modules is None else frozenset(modules)
    found = (stack for module, stack in STACKS.items() if module in present)
    return sorted(
        (stack for stack in found if not is_covered(stack.module, covered)),
        key=lambda one: one.name.lower(),
    )


class StackWatch:
    """Finds nothing; says when a known stack is imported that is there. The audit event of an import misses
    ``importlib.import_module``."""

    def __init__(self, act: Callable[[Stack], None]) -> None:
        self._act = act

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        stack = STACKS.get(fullname)
        if stack is None or not is_importing(fullname):
            return
        others = [finder for finder in sys.meta_path if finder is not self]
        if any(one.find_spec(fullname, path, target) is not None for one in others):
            self._act(stack)

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
