"""Which database a machine troubles: a server of its own, thrown away at the end, or a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import make_url

from tests.support.mariadb import LocalServer, MariadbServer
from tests.support.mysql import RealMysqlServer
from tests.support.postgresql import PostgresServer

# As options call them: `mysql` is a MariaDB, `real-mysql` a MySQL.
Database = Literal["postgresql", "mysql", "real-mysql", "sqlite"]
Driver = Literal["psycopg", "asyncpg"]
Server = PostgresServer | LocalServer


def server_of(database: Database, settings: Mapping[str, str] | None = None) -> Server:
    """Return the server of a database, not started, with its own settings but for these.

    Unlike those of the tests it is as durable as its makers want it, unless `settings` say
    otherwise: what is committed is there after a crash.

    Raises:
        ValueError: SQLite has no server.
    """
    match database:
        case "postgresql":
            return PostgresServer(settings)
        case "mysql":
            return MariadbServer(settings or {})
        case "real-mysql":
            return RealMysqlServer(settings or {})
    raise ValueError(f"{database} has no server: its database is a file")


def changed(url: str, **parts: Any) -> str:
    """Return a URL with another user, port or the like, as `sqlalchemy.URL.set` names them."""
    return make_url(url).set(**parts).render_as_string(hide_password=False)
