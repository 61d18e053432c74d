"""The databases that peers are compared on: a server of our own, and what is said to it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from sqlalchemy import create_engine

from benchmarks.gauges import instruments
from benchmarks.peers import envs
from tests.support.mariadb import MariadbServer, MysqlServer
from tests.support.mysql import RealMysqlServer
from tests.support.postgresql import PostgresServer

_SHOWN = ("server_version", "synchronous_commit", "fsync", "shared_buffers")


@dataclass(frozen=True, slots=True)
class Database:
    """Where a peer works: the database's name, its plain URL, and SQLAlchemy's."""

    name: str
    url: str
    watched: str


class Site(ABC):
    """A running server with default settings, hence default durability.

    `dialect`: whose adapters and gauges are used. `peers`: who can work there. `works`: what is
    done there, in order.
    """

    name: ClassVar[str]
    dialect: ClassVar[str]
    peers: ClassVar[Sequence[str]]
    works: ClassVar[Sequence[str]] = ("drain", "one", "latency", "backlog", "pinned")
    largest: ClassVar[int | None] = None  # the backlog that only ourselves and the limit are given

    @abstractmethod
    def database(self) -> AbstractContextManager[Database]:
        """Lend a fresh database."""

    @abstractmethod
    def tidy(self, database: Database) -> None:
        """Do what the server would do by itself in the minutes after a large load."""

    @abstractmethod
    def held(self, database: Database) -> AbstractContextManager[None]:
        """Hold a snapshot while the block runs."""

    @abstractmethod
    def settings(self) -> dict[str, str]:
        """Return the version and the settings that decide about speed."""


class PostgresqlSite(Site):
    """PostgreSQL; SQLite, where files are enough, is measured beside it."""

    name = dialect = "postgresql"
    peers = envs.EVERYBODY
    works = ("drain", "one", "latency", "sqlite", "backlog", "pinned")
    largest = 5_000_000

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Lend a fresh database."""
        with self._server.database() as name:
            yield Database(name, self._server.url(name, driver=None), self._server.url(name))

    def tidy(self, database: Database) -> None:
        """Do what autovacuum and the checkpointer would do."""
        with self._server.connect(database.name) as conn:
            conn.execute("VACUUM (ANALYZE)")
            conn.execute("CHECKPOINT")

    @contextmanager
    def held(self, database: Database) -> Iterator[None]:
        """Hold a snapshot and a transaction id."""
        with self._server.connect(database.name) as conn:
            conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            conn.execute("SELECT txid_current()")
            yield

    def settings(self) -> dict[str, str]:
        """Ask the server."""
        with self._server.connect() as conn:
            return {
                name: str(conn.execute(f"SHOW {name}").fetchone()[0])  # type: ignore[index]
                for name in _SHOWN
            }


class MariadbSite(Site):
    """MariaDB."""

    name = dialect = "mysql"
    peers = envs.ON_MARIADB

    def __init__(self, server: MysqlServer) -> None:
        self._server = server

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Lend a fresh database."""
        name = self._server.create_database()
        url = self._server.url(name)
        try:
            yield Database(name, url, url)
        finally:
            self._server.drop_database(name)

    def tidy(self, database: Database) -> None:
        """Count anew what the tables hold; pages are written in the background in any case."""
        with self._server.connect(database.name) as conn, conn.cursor() as cursor:
            cursor.execute("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'")
            for table, _ in cursor.fetchall():
                cursor.execute(f"ANALYZE TABLE {table}")

    @contextmanager
    def held(self, database: Database) -> Iterator[None]:
        """Hold a read view: until its end nothing is purged that was deleted after it."""
        with self._server.connect(database.name) as conn, conn.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            yield

    def settings(self) -> dict[str, str]:
        """Ask the server."""
        with self.database() as database:
            engine = create_engine(database.watched)
            with engine.connect() as conn:
                mysql = instruments(self.dialect)
                found = {"server_version": mysql.version(conn), **mysql.settings(conn)}
            engine.dispose()
        return {name: str(value) for name, value in found.items()}


class MysqlSite(MariadbSite):
    """A real MySQL."""

    name = "real-mysql"


@contextmanager
def site(database: str) -> Iterator[Site]:
    """Start a server of this kind, and stop it at the end of the block."""
    if database == MariadbSite.name:
        with MariadbServer(settings={}) as mariadb:
            yield MariadbSite(mariadb)
    elif database == MysqlSite.name:
        with RealMysqlServer(settings={}) as mysql:
            yield MysqlSite(mysql)
    else:
        with PostgresServer() as postgres:
            yield PostgresqlSite(postgres)


SITES = {each.name: each for each in (PostgresqlSite, MariadbSite, MysqlSite)}
