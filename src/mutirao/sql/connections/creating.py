"""Creates the store's SQLAlchemy engines: their pools and their options."""

from typing import Any

from sqlalchemy import URL, NullPool
from sqlalchemy.exc import NoSuchModuleError

from mutirao.errors import ConfigurationError, MissingDriver
from mutirao.model.row_json import shown
from mutirao.sql.dialects.connecting import MAY_CREATE_FILE, SINGLE_STATEMENT, Drivers

MAX_OVERFLOW = 64  # further connections, closed after use


def created(
    factory: Any, url: URL, drivers: Drivers, pool_size: int, *, alone: bool, creates: bool
) -> Any:
    """Return an engine that `factory` creates, synchronous or asynchronous.

    Parameters:
        pool_size: connections that are kept after use; 0: each is closed.
        alone: for single statements, in autocommit mode.
        creates: a database that is a file may be made.

    Raises:
        MissingDriver: the driver is not installed.
        ConfigurationError: SQLAlchemy does not know it; or it is an SQLite database in memory,
            which is used through a connection of the program only.
    """
    if url.query.get("mode") == "memory":
        raise ConfigurationError(
            "the jobs are in an SQLite database in memory, and this call needs another connection"
            " to it than the program's. Name a file; in Django for the database of the tests, too:"
            " 'TEST': {'NAME': 'test.db'}. In a TestCase ask models, Job.objects.get(id=…), or"
            " result.refresh(): they are in its transaction"
        )
    # A single statement leaves nothing to roll back when its connection is returned.
    standing: dict[str, Any] = (
        {"isolation_level": "AUTOCOMMIT", "pool_reset_on_return": None, **drivers.alone}
        if alone
        else dict(drivers.transactional)
    )
    try:
        engine = factory(
            url,
            **_pool(pool_size),
            json_deserializer=shown,
            connect_args=dict(drivers.arguments),
            execution_options={MAY_CREATE_FILE: creates, SINGLE_STATEMENT: alone},
            **standing,
        )
    except ModuleNotFoundError as missing:
        raise MissingDriver(
            f"the URL asks for {url.drivername}, whose driver is not installed ({missing});"
            f" run: pip install 'mutirao[{drivers.extra}]'"
        ) from missing
    except NoSuchModuleError as unknown:
        raise ConfigurationError(str(unknown)) from unknown
    return engine


def _pool(size: int) -> dict[str, Any]:
    if not size:
        return {"poolclass": NullPool}
    # The plans and caches of the connection that was used last are warm.
    return {"pool_size": size, "max_overflow": MAX_OVERFLOW, "pool_use_lifo": True}
