"""The contract of a store, on MySQL, and what MySQL decides in another way than MariaDB.

What is promised on both is in `test_mariadb`, whose classes run here on the other server.
"""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import InvalidRequestError

from mutirao.errors import StoreRefused
from mutirao.ports import Store
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.kit import due, join, put, take_one
from tests.conformance import test_mariadb as mariadb
from tests.support.mariadb import MysqlServer

# Fixtures, which ask for the `server` of this module.
database = mariadb.database
own_store = mariadb.own_store
connection = mariadb.connection
store = mariadb.store
by_mysqlclient = mariadb.by_mysqlclient

# What is found out about a server.
test_what_a_server_lacks = mariadb.test_what_a_server_lacks
test_a_table_in_another_engine = mariadb.test_a_table_in_another_engine
test_sessions_that_are_not_strict = mariadb.test_sessions_that_are_not_strict
test_defaults_of_a_server = mariadb.test_defaults_of_a_server


@pytest.fixture(scope="session")
def server(real_mysql: MysqlServer) -> MysqlServer:
    """The session's MySQL, or the server that is given."""
    return real_mysql


class TestMysql(mariadb.TestMariadb):
    """A server, through PyMySQL, and aiomysql for the transactions of coroutines."""

    too_large = ()

    @pytest.mark.parametrize("number", ["1e999999", "1" * 400])
    async def test_a_number_that_is_too_large(self, store: Store, number: str) -> None:
        """MySQL's JSON has numbers up to those of a double, and refuses others."""
        with pytest.raises(StoreRefused, match="no number larger than a double"):
            await put(store, due(args=f'{{"n":{number}}}'))

    @pytest.mark.parametrize("driver", ["mysql+pymysql"])
    async def test_a_session_of_the_application(
        self, store: SqlStore, server: MysqlServer, database: str, driver: str
    ) -> None:
        """A job is born in its transaction. SQLAlchemy has `mariadb+pymysql` for MariaDB only."""
        await super().test_a_session_of_the_application(store, server, database, driver)

    async def test_an_engine_of_the_other_name(
        self, store: SqlStore, server: MysqlServer, database: str
    ) -> None:
        """SQLAlchemy refuses it to the application; our own connections are made in ours."""
        engine = create_engine(server.url(database, "mariadb+pymysql"))
        with pytest.raises(InvalidRequestError, match="not a MariaDB variant"):
            engine.connect()
        [id] = await put(store, due())
        theirs = SqlStore(engine)
        assert (await take_one(theirs, await join(theirs))).id == id
        await theirs.close()
        engine.dispose()


class TestMysqldb(mariadb.TestMysqldb):
    """The same through mysqlclient, which is only synchronous."""

    too_large = ()
