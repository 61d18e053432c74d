"""MySQL as others set it up: how one signs in, with and without TLS, and what servers ask for.

On a server of these tests alone, whose settings they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from time import monotonic
from typing import Any

import pymysql
import pytest
from pymysql import _auth
from sqlalchemy import make_url

from mutirao.errors import MissingDriver, StoreUnavailable
from mutirao.sql import migrations
from mutirao.sql.connections.engines import Engines
from mutirao.sql.drivers.failures import translate_errors
from tests.integration.databases.kit import works
from tests.support.mysql import RealMysqlServer
from tests.support.servers import free_port

_numbers = count(1)
# Without TLS: aiomysql and mysqlclient have it where it is asked for, PyMySQL where it can be had.
PLAIN = {"pymysql": "ssl_disabled=true", "aiomysql": "ssl_disabled=true", "mysqldb": ""}
DRIVERS = [*PLAIN]
_GROUP = "loose-group-replication-"
_MEMBER = {
    "innodb-flush-log-at-trx-commit": "0",
    "plugin-load-add": "group_replication.so",
    "server-id": "1",
    "gtid-mode": "ON",
    "enforce-gtid-consistency": "ON",
    f"{_GROUP}group-name": "3f2a7c1e-6d54-4c0a-9b55-0d1f6f0b8a11",
    f"{_GROUP}start-on-boot": "OFF",
}


@pytest.fixture(scope="module")
def server() -> Iterator[RealMysqlServer]:
    """A MySQL, with a database `shop`."""
    with RealMysqlServer() as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
        yield server


@pytest.fixture
def user(server: RealMysqlServer) -> str:
    """A user whom the server has never seen, so it asks for the password as a whole."""
    name = f"user{next(_numbers)}"
    with server.connect() as connection, connection.cursor() as cursor:
        by = "IDENTIFIED WITH caching_sha2_password BY 'sesame'"
        cursor.execute(f"CREATE USER '{name}'@'%' {by}")
        cursor.execute(f"GRANT ALL ON shop.* TO '{name}'@'%'")
    return name


@contextmanager
def set_to(server: RealMysqlServer, name: str, value: str, usual: str) -> Iterator[None]:
    """Let the server have a setting, for all sessions that begin."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL {name} = {usual}")


@pytest.fixture
def sign_in(server: RealMysqlServer, user: str) -> Callable[[str, str], Any]:
    """What signs the user in once, by a driver and the end of a URL."""

    async def sign_in(driver: str, options: str) -> None:
        url = make_url(f"{server.url('shop', f'mysql+{driver}')}?{options}")
        engines = Engines(url.set(username=user, password="sesame"))
        try:
            with translate_errors():
                if driver == "aiomysql":
                    await (await engines.asynchronous().connect()).close()
                else:
                    engines.sync().connect().close()
        finally:
            await engines.close()
            engines.close_sync()

    return sign_in


@pytest.mark.parametrize("driver", DRIVERS)
async def test_signing_in(sign_in: Callable[[str, str], Any], driver: str) -> None:
    """By `caching_sha2_password`, the usual way from MySQL 8 on, without TLS."""
    await sign_in(driver, PLAIN[driver])


@pytest.mark.parametrize("driver", DRIVERS)
async def test_signing_in_with_tls(
    server: RealMysqlServer,
    sign_in: Callable[[str, str], Any],
    monkeypatch: pytest.MonkeyPatch,
    driver: str,
) -> None:
    """And by the certificates that the server makes itself; nothing else has to be installed."""
    monkeypatch.setattr(_auth, "_have_cryptography", False)
    with set_to(server, "require_secure_transport", "ON", "OFF"):
        ca = server.directory / "data" / "ca.pem"
        await sign_in(driver, f"ssl_ca={ca}&ssl_check_hostname=false")


@pytest.mark.parametrize("driver", ["pymysql", "aiomysql"])
async def test_what_has_to_be_installed(
    sign_in: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    """Said where a connection is refused for the first time; these drivers raise a RuntimeError."""
    monkeypatch.setattr(_auth, "_have_cryptography", False)
    found = pytest.raises(MissingDriver, match=r"pip install 'pymysql\[rsa\]', or connect with TLS")
    with found:
        await sign_in(driver, PLAIN[driver])


async def test_a_server_that_wants_tls(
    server: RealMysqlServer, sign_in: Callable[[str, str], Any]
) -> None:
    """The error says how it is had."""
    refused = pytest.raises(StoreUnavailable, match=r"insecure transport .* connect with TLS")
    with set_to(server, "require_secure_transport", "ON", "OFF"), refused:
        await sign_in("mysqldb", "")


@pytest.mark.parametrize(
    ("name", "value", "usual"),
    [
        ("sql_require_primary_key", "ON", "OFF"),
        ("sql_generate_invisible_primary_key", "ON", "OFF"),
        ("default_storage_engine", "MyISAM", "InnoDB"),
        ("transaction_isolation", "'SERIALIZABLE'", "'REPEATABLE-READ'"),
    ],
)
async def test_what_a_server_may_ask_for(
    server: RealMysqlServer, name: str, value: str, usual: str
) -> None:
    """Tables are made there, and a job is done."""
    database = server.create_database()
    with set_to(server, name, value, usual):
        migrations.upgrade(server.url(database))
        await works(server.url(database))


@pytest.mark.parametrize("primary", ["ON", "OFF"])
async def test_a_member_of_a_group(primary: str) -> None:
    """Group replication wants a key and InnoDB of each table, of several primaries even more.

    A member refuses what is written to a table that has them not.
    """
    with RealMysqlServer({**_MEMBER, f"{_GROUP}single-primary-mode": primary}) as member:
        begin_group(member, checks=primary == "OFF")
        database = member.create_database()
        migrations.upgrade(member.url(database))
        await works(member.url(database))
        with member.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE keyless (n int)")
            with pytest.raises(pymysql.MySQLError, match="does not comply with the requirements"):
                cursor.execute("INSERT INTO keyless VALUES (7)")


def begin_group(member: RealMysqlServer, *, checks: bool) -> None:
    """Have a server be the only member of a group."""
    address = f"127.0.0.1:{free_port()}"
    with member.connect() as connection, connection.cursor() as cursor:
        for name, value in {
            "group_replication_local_address": f"'{address}'",
            "group_replication_enforce_update_everywhere_checks": "ON" if checks else "OFF",
            "group_replication_bootstrap_group": "ON",
        }.items():
            cursor.execute(f"SET GLOBAL {name} = {value}")
        cursor.execute("START GROUP_REPLICATION")
        cursor.execute("SET GLOBAL group_replication_bootstrap_group = OFF")
        state = "SELECT member_state FROM performance_schema.replication_group_members"
        deadline = monotonic() + 60
        while cursor.execute(state) and cursor.fetchall() != (("ONLINE",),):
            assert monotonic() < deadline


async def test_a_replica_that_is_read_only(server: RealMysqlServer, user: str) -> None:
    """Nothing is made there, and the sentence says why."""
    with set_to(server, "read_only", "ON", "OFF"):
        url = make_url(server.url("shop")).set(username=user, password="sesame")
        with pytest.raises(StoreUnavailable, match="the database is read-only"):
            migrations.upgrade(url)
