"""Client libraries for databases, caches, brokers and RPC that Reenact does not record.

A replay refuses their statements unless the driver is allowed by its name. The table is also the
source of the network stacks in :mod:`reenact.hermetic.network_libraries`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = ["DRIVERS", "Driver", "driver_named", "driver_of"]


class Driver(msgspec.Struct, frozen=True):
    """One client library.

    ``name`` is what people install and allow. If one of ``modules`` is in ``sys.modules``, the
    driver is loaded. ``sends`` is the way to its peer: through Python's sockets (``seen``),
    in C, Rust or Go (``unseen``), or through files on this machine (``file``). ``title`` is a
    longer name for the documentation.
    """

    name: str
    modules: tuple[str, ...]
    sends: Literal["seen", "unseen", "file"] = "seen"
    title: str = ""


DRIVERS: Final = (
    # Files
    Driver("sqlite3", ("sqlite3", "_sqlite3"), "file"),
    Driver("duckdb", ("duckdb", "_duckdb"), "file"),
    Driver("apsw", ("apsw",), "file"),
    # Databases
    Driver("asyncmy", ("asyncmy",)),
    Driver("asyncpg", ("asyncpg",)),
    Driver("aiomysql", ("aiomysql",)),
    Driver("cassandra-driver", ("cassandra",)),
    Driver("clickhouse-driver", ("clickhouse_driver",)),
    Driver("couchbase", ("couchbase",), "unseen"),
    Driver("cx_Oracle", ("cx_Oracle",), "unseen"),
    Driver("ibm_db", ("ibm_db",), "unseen"),
    Driver("mysql-connector", ("mysql.connector", "_mysql_connector")),
    Driver("mysqlclient", ("MySQLdb",), "unseen"),
    Driver("neo4j", ("neo4j",)),
    Driver("oracledb", ("oracledb",)),
    Driver("pg8000", ("pg8000",)),
    Driver("psycopg", ("psycopg",), "unseen", "psycopg (libpq)"),
    Driver("psycopg2", ("psycopg2",), "unseen", "psycopg2 (libpq)"),
    Driver("PyGreSQL", ("_pg",), "unseen"),
    Driver("pymongo", ("pymongo",)),
    Driver("pymssql", ("pymssql",), "unseen", "pymssql (FreeTDS)"),
    Driver("PyMySQL", ("pymysql",)),
    Driver("pyodbc", ("pyodbc",), "unseen"),
    # Caches
    Driver("pylibmc", ("pylibmc",), "unseen"),
    Driver("pymemcache", ("pymemcache",)),
    Driver("redis", ("redis",)),
    Driver("valkey", ("valkey",)),
    # Brokers
    Driver("aio-pika", ("aio_pika",)),
    Driver("aiokafka", ("aiokafka",)),
    Driver("confluent-kafka", ("confluent_kafka",), "unseen", "confluent-kafka (librdkafka)"),
    Driver("kafka-python", ("kafka",)),
    Driver("nats-py", ("nats",)),
    Driver("paho-mqtt", ("paho.mqtt",)),
    Driver("pika", ("pika",)),
    Driver("pulsar-client", ("pulsar",), "unseen"),
    Driver("py-amqp", ("amqp",)),
    Driver("pyzmq", ("zmq",), "unseen", "pyzmq (libzmq)"),
    Driver("stomp.py", ("stomp",)),
    # RPC and directories
    Driver("grpc", ("grpc",), "unseen"),
    Driver("ldap3", ("ldap3",)),
    Driver("python-ldap", ("ldap",), "unseen", "python-ldap (libldap)"),
    Driver("ray", ("ray",), "unseen"),
    Driver("thrift", ("thrift",)),
    # HTTP clients in C, Rust or Go, without a boundary
    Driver("curl_cffi", ("curl_cffi",), "unseen", "curl_cffi (libcurl)"),
    Driver("hf_transfer", ("hf_transfer",), "unseen"),
    Driver("hf_xet", ("hf_xet",), "unseen"),
    Driver("primp", ("primp",), "unseen"),
    Driver("pycurl", ("pycurl",), "unseen", "pycurl (libcurl)"),
    Driver("pyreqwest", ("pyreqwest",), "unseen"),
    Driver("rnet", ("rnet",), "unseen"),
    Driver("tls_client", ("tls_client",), "unseen"),
)

_BY_NAME: Final = {driver.name.lower(): driver for driver in DRIVERS}
_BY_MODULE: Final = {module: driver for driver in DRIVERS for module in driver.modules}


def driver_named(name: str) -> Driver | None:
    """Return the driver called ``name``, in any case, or the one with a module of that name."""
    return _BY_NAME.get(name.lower()) or _BY_MODULE.get(name)


def driver_of(module: str) -> Driver | None:
    """Return the driver that the module ``module`` belongs to."""
    while module:
        if module in _BY_MODULE:
            return _BY_MODULE[module]
        module = module.rpartition(".")[0]
    return None
