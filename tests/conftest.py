"""The databases that tests run against: real ones, a fresh one for each test.

Each is made from a template that was migrated once, so that a test pays for a copy and no more.
A missing server is an error, never a reason to skip.
"""

from __future__ import annotations

import gc
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import hostile
from tests.support.mariadb import MysqlServer, mysql_server
from tests.support.mysql import real_mysql_server
from tests.support.postgresql import PostgresServer

if TYPE_CHECKING:
    from tests.support.rabbitmq import RabbitServer

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell, all that the tests interrupt would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The contract tests are a package, for others' backends too; pytest explains asserts only
# in test files unless told of more.
pytest.register_assert_rewrite("mutirao_conformance")
pytest_plugins = [
    f"tests.support.{name}"
    for name in ("scratch", "hangs", "slowest", "longest", "repeats", "clones")
]

DATABASES = ["sqlite", "postgresql", "mysql"]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave all tests and modules out of the collections of garbage while tests run.

    There are millions of objects in them, so that each took most of a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The session's server. Its data need not survive a power cut, only what the tests do to it."""
    settings = {
        "fsync": "off",
        "full_page_writes": "off",
        "jit": "off",  # it compiles what runs once: a fifth of the server's time
        "max_connections": "200",
        "max_prepared_transactions": "10",
    }
    with PostgresServer(settings) as server:
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[MysqlServer]:
    """The session's MariaDB, or the server that MUTIRAO_TEST_MYSQL_URL names."""
    with mysql_server() as server:
        yield server


@pytest.fixture(scope="session")
def real_mysql() -> Iterator[MysqlServer]:
    """The session's MySQL, or the server that MUTIRAO_TEST_MYSQL_URL names."""
    with real_mysql_server() as server:
        yield server


@pytest.fixture(scope="session")
def rabbit() -> Iterator[RabbitServer]:
    """The session's RabbitMQ node. Each test has a prefix of its own, or empties what it shares."""
    from tests.support.rabbitmq import RabbitServer  # it needs the client

    with RabbitServer() as server:
        yield server


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    """The URL of the session's server with the interface of SQS. Tests name queues of their own."""
    from tests.support.sqs import moto_server

    with moto_server() as url:
        yield url


@pytest.fixture(scope="session")
def migrated_template(postgres: PostgresServer) -> str:
    """The name of a database with Mutirão's tables, to create others from. Do not connect to it.

    Somebody has put functions of their own into its public schema, which are never called.
    """
    from mutirao.sql import migrations

    name = postgres.create_database()
    migrations.upgrade(postgres.url(name))
    with postgres.connect(name) as connection:
        connection.execute(hostile.statements().encode())
    return name


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with Mutirão's tables, to be copied. Do not open it."""
    from mutirao.sql import migrations

    path = tmp_path_factory.mktemp("migrated") / "mutirao.db"
    migrations.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def postgresql_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL (psycopg) of an empty PostgreSQL database."""
    with postgres.database() as name:
        yield postgres.url(name)


@pytest.fixture
def mysql_url(mysql: MysqlServer) -> Iterator[str]:
    """The URL (PyMySQL) of an empty MariaDB database."""
    name = mysql.create_database()
    yield mysql.url(name)
    mysql.drop_database(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'mutirao.db'}"


@pytest.fixture(scope="module")
def shared_database(postgres: PostgresServer, migrated_template: str) -> Iterator[str]:
    """The name of a database with Mutirão's tables, and with what earlier tests left in them."""
    with postgres.database(migrated_template) as name:
        yield name
        # A connection that was given up while it was being made lives until it is collected, and
        # the server drops no database while somebody is at its door.
        gc.collect()


@pytest.fixture
def emptied_postgresql_url(postgres: PostgresServer, shared_database: str) -> str:
    """The URL (psycopg) of a database with Mutirão's tables, as empty as when they were made.

    One for a whole module, emptied for each test: many times faster than one for each.
    """
    from tests.support.emptying import empty

    empty(postgres, shared_database)
    return postgres.url(shared_database)


@pytest.fixture
def migrated_postgresql_url(postgres: PostgresServer, migrated_template: str) -> Iterator[str]:
    """The URL (psycopg) of a PostgreSQL database with Mutirão's tables, and nothing in them."""
    with postgres.database(migrated_template) as name:
        yield postgres.url(name)


@pytest.fixture
def migrated_mysql_url(mysql_url: str) -> str:
    """The URL of a MariaDB database with Mutirão's tables, made in 0.15 s, and nothing in them."""
    from mutirao.sql import migrations

    migrations.upgrade(mysql_url)
    return mysql_url


@pytest.fixture
def migrated_sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """The URL of an SQLite file with Mutirão's tables, and nothing in them."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'mutirao.db')}"


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, once on each database that Mutirão supports."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=DATABASES)
def migrated_url(request: pytest.FixtureRequest) -> str:
    """The URL of a database with Mutirão's tables, once on each that Mutirão supports."""
    return str(request.getfixturevalue(f"migrated_{request.param}_url"))
