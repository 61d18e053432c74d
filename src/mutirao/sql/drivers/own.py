"""Adapters for the connections of the store's own pools: one adapter per connection."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import PoolProxiedConnection

from mutirao.sql.drivers.kinds import ASYNC_DRIVERS, DRIVERS, Adapted, Adapting, Kinds, speaking
from mutirao.sql.drivers.steps import AsyncDriver, Execute, Request, SyncDriver

_PLACE = "mutirao"  # the key under which a connection remembers its adapter
_counts: list[Callable[[], None]] = []


def own(pooled: PoolProxiedConnection, prepares: bool) -> SyncDriver:
    """Return the adapter for a connection of a synchronous engine."""
    return _driver(_SYNC if prepares else DRIVERS, pooled)


def aown(pooled: PoolProxiedConnection, prepares: bool) -> AsyncDriver:
    """Return the adapter for a connection of an asynchronous engine, without its greenlets."""
    return _driver(_ASYNC if prepares else ASYNC_DRIVERS, pooled)


def lent(pooled: PoolProxiedConnection) -> SyncDriver:
    """Return the adapter for a synchronous engine's connection that a handler had.

    It prepares only a last statement of ours: a rollback by psycopg forgets the others. It prepares
    none where the connection is set to prepare nothing.
    """
    return _driver(_LENT, pooled)


def alent(pooled: PoolProxiedConnection) -> AsyncDriver:
    """Return the adapter for an asynchronous engine's connection that a handler had."""
    return _driver(_ALENT, pooled)


def _driver(kinds: Kinds[Adapted], pooled: PoolProxiedConnection) -> Adapted:
    known: Adapted | None = pooled.info.get(_PLACE)
    if known is None:
        known = pooled.info[_PLACE] = kinds.adapt(pooled.driver_connection)
    return _Counted(known) if _counts else known  # type: ignore[return-value]


@contextmanager
def counted(count: Callable[[], None]) -> Iterator[None]:
    """Call `count` for each statement sent through such connections in the block."""
    _counts.append(count)
    try:
        yield
    finally:
        _counts.remove(count)


class _Counted:
    """An adapter of either kind that counts its statements."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def handle(self, request: Request) -> Any:
        if isinstance(request, Execute):
            for count in _counts * (1 + len(request.then)):
                count()
        return self._driver.handle(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)


_SYNC = Kinds[SyncDriver](
    Adapting("psycopg", "Connection", speaking("psycopg:OwnPsycopgDriver")),
    Adapting("pymysql", "Connection", speaking("pymysql:OwnPyMysqlDriver")),
    Adapting("MySQLdb.connections", "Connection", speaking("mysqldb:OwnMysqldbDriver")),
    *DRIVERS.each,
)
_ASYNC = Kinds[AsyncDriver](
    Adapting("psycopg", "AsyncConnection", speaking("psycopg:OwnAsyncPsycopgDriver")),
    *ASYNC_DRIVERS.each,
)
_LENT = Kinds[SyncDriver](
    Adapting("psycopg", "Connection", speaking("psycopg:LentPsycopgDriver")), *DRIVERS.each
)
_ALENT = Kinds[AsyncDriver](
    Adapting("psycopg", "AsyncConnection", speaking("psycopg:LentAsyncPsycopgDriver")),
    *ASYNC_DRIVERS.each,
)
