"""Who speaks through the connections of the store's own pools: one caller as long as each lasts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import PoolProxiedConnection

from mutirao.sql.callers.kinds import ASYNC_DRIVERS, DRIVERS, Adapted, Adapting, Kinds
from mutirao.sql.callers.steps import AsyncCaller, Execute, Request, SyncCaller

_PLACE = "mutirao"  # what a pool remembers with a connection
_counts: list[Callable[[], None]] = []


def own(pooled: PoolProxiedConnection, prepares: bool) -> SyncCaller:
    """Return who speaks through a connection of a synchronous engine."""
    return _caller(_SYNC if prepares else DRIVERS, pooled)


def aown(pooled: PoolProxiedConnection, prepares: bool) -> AsyncCaller:
    """Return who speaks through a connection of an asynchronous engine, past its greenlets."""
    return _caller(_ASYNC if prepares else ASYNC_DRIVERS, pooled)


def _caller(kinds: Kinds[Adapted], pooled: PoolProxiedConnection) -> Adapted:
    known: Adapted | None = pooled.info.get(_PLACE)
    if known is None:
        known = pooled.info[_PLACE] = kinds.adapt(pooled.driver_connection)
    return _Counted(known) if _counts else known  # type: ignore[return-value]


@contextmanager
def counted(count: Callable[[], None]) -> Iterator[None]:
    """Call `count` for each statement that anybody sends through such connections meanwhile."""
    _counts.append(count)
    try:
        yield
    finally:
        _counts.remove(count)


class _Counted:
    """A caller of either kind."""

    def __init__(self, caller: Any) -> None:
        self._caller = caller

    def handle(self, request: Request) -> Any:
        if isinstance(request, Execute):
            for count in _counts:
                count()
        return self._caller.handle(request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caller, name)


def _psycopg(conn: Any) -> SyncCaller:
    from mutirao.sql.callers.psycopg import OwnPsycopgCaller

    return OwnPsycopgCaller(conn)


def _psycopg_async(conn: Any) -> AsyncCaller:
    from mutirao.sql.callers.psycopg import OwnAsyncPsycopgCaller

    return OwnAsyncPsycopgCaller(conn)


_SYNC = Kinds(Adapting("psycopg", "Connection", _psycopg), *DRIVERS.each)
_ASYNC = Kinds(Adapting("psycopg", "AsyncConnection", _psycopg_async), *ASYNC_DRIVERS.each)
