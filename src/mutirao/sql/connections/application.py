"""Opens the store's connections the way an application's engine opens its connections.

The pools are separate. Otherwise the application's requests would wait for our workers, and they
for those; and our settings of a connection (autocommit, prepared statements, no reset on return)
are not for others. So each connection is opened with the engine's URL, its `connect_args`, its
`creator` and its listeners of `do_connect` and `connect`.
"""

from collections.abc import Iterable
from inspect import getclosurevars
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Engine

from mutirao.errors import ConfigurationError
from mutirao.sql.dialects.connecting import Drivers

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

_SQLALCHEMY = ("sqlalchemy.engine.", "sqlalchemy.util.", "sqlalchemy.dialects.")


class Application:
    """How an application's engine, synchronous or not, opens a connection."""

    def __init__(self, engine: "Engine | AsyncEngine") -> None:
        found: object = getattr(engine, "sync_engine", engine)
        if not isinstance(found, Engine):
            raise ConfigurationError(
                f"engine= was given an object of type {type(engine).__module__}."
                f"{type(engine).__qualname__}; expected a sqlalchemy.Engine or"
                " sqlalchemy.ext.asyncio.AsyncEngine. Pass a URL as the first argument."
            )
        self._engine = found

    @property
    def url(self) -> URL:
        """The URL of the engine, with the driver that it uses."""
        url, driver = self._engine.url, self._engine.dialect.driver.removesuffix("_async")
        return url.set(drivername=f"{url.drivername.partition('+')[0]}+{driver}")

    def forms(self, drivers: Drivers) -> Drivers:
        """Return the drivers of which it can open connections.

        Parameters for connecting do for both forms of a driver, a creator only for the engine's.
        """
        if self._arguments() is not None:
            return drivers
        if self._engine.dialect.is_async:
            return drivers._replace(sync=None)
        return drivers._replace(asynchronous=None)

    def complete(self, dialect: Any, record: object, args: Any, parameters: dict[str, Any]) -> None:
        """Add the engine's own parameters of a connection; they come before ours.

        But for the `context` of psycopg: it has the converters of the engine's own dialect. Of
        `client_flag`, which is a set of bits, both hold.
        """
        theirs = dict(self._arguments() or {})
        theirs.pop("context", None)
        if "client_flag" in theirs:
            theirs["client_flag"] |= parameters.get("client_flag", 0)
        parameters.update(theirs)

    def connect(self, dialect: Any, record: Any, args: Any, parameters: dict[str, Any]) -> Any:
        """Open a connection as the engine does, for the dialect of one of the store's engines."""
        if self._arguments() is None:
            pool: Any = self._engine.pool
            return pool._invoke_creator(record)
        for listener in _own(self._engine.dialect.dispatch.do_connect):
            connection = listener(dialect, record, args, parameters)
            if connection is not None:
                return connection
        return dialect.connect(*args, **parameters)

    def prepare(self, connection: Any, record: Any) -> None:
        """Set up a new connection as the application sets up its own."""
        for listener in _own(self._engine.pool.dispatch.connect):
            listener(connection, record)

    def _arguments(self) -> Any:
        """Return the engine's parameters of a connection; None if it has a `creator`."""
        pool: Any = self._engine.pool
        # They are nowhere else: SQLAlchemy's own creator has them, and no other has.
        if not getattr(pool._creator, "__module__", "").startswith(_SQLALCHEMY):
            return None
        return getclosurevars(pool._creator).nonlocals.get("cparams")


def _own(listeners: Any) -> Iterable[Any]:
    """Return what the application listens with: not to all engines, and not SQLAlchemy's own."""
    each = list(listeners.listeners)
    return [one for one in each if not getattr(one, "__module__", "").startswith(_SQLALCHEMY)]
