"""How the application opens connections to a database of `settings.DATABASES`.

Workers have connections of their own, beside Django's. Each is opened with what Django itself would
connect with at that moment: a password that changes, an option, the name of a test's database.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.db.models.options import Options
from sqlalchemy import URL, Engine, create_engine, event

# A database in memory has no name that another connection could open. Jobs that are enqueued and
# drained through Django's own are in it all the same.
_IN_MEMORY = "file:memorydb_mutirao?mode=memory&cache=shared"


class JobRow:
    """Stands for the rows of jobs before `DATABASE_ROUTERS`, which may be asked before models."""

    _meta = Options(None, "mutirao")
    _meta.object_name, _meta.model_name, _meta.db_table = "Job", "job", "mutirao_jobs"


def chosen_alias(given: str | None) -> str:
    """Return the alias of the database with the jobs: the given one, or what the routers say."""
    alias: str = given or router.db_for_write(JobRow)
    return alias


def engine_of(alias: str) -> Engine:
    """Return an engine that opens connections as Django does for an alias; it has opened none.

    Raises:
        ImproperlyConfigured: it is no database that jobs can be in.
    """
    url = _Opening.of(alias).url
    engine = create_engine(url.set(password=None))

    @event.listens_for(engine, "do_connect")
    def _connect_as_django(dialect: Any, record: Any, args: Any, given: dict[str, Any]) -> None:
        opening = _Opening.of(alias)
        places, names = dialect.create_connect_args(opening.url)
        if places:
            args[:] = places
        given.update(names)
        given.update(opening.options)

    @event.listens_for(engine, "connect")
    def _set_role(connection: Any, record: Any) -> None:
        role = connections.settings[alias]["OPTIONS"].get("assume_role")
        if role is not None:
            wrapper = connections.create_connection(alias)
            cursor = connection.cursor()
            cursor.execute(f"SET ROLE {wrapper.ops.quote_name(role)}")
            cursor.close()

    return engine


class _Opening(NamedTuple):
    url: URL
    options: dict[str, Any]

    @classmethod
    def of(cls, alias: str) -> "_Opening":
        wrapper = connections.create_connection(alias)
        parse = _VENDORS.get(wrapper.vendor)
        if parse is None:
            raise ImproperlyConfigured(
                f"DATABASES[{alias!r}] is {wrapper.display_name}; expected PostgreSQL, SQLite,"
                " MySQL or MariaDB. Name another alias: MUTIRAO = {'DATABASE': …}"
            )
        return parse(wrapper)


def _postgresql(wrapper: Any) -> _Opening:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    given = wrapper.get_connection_params()
    for ours in ("cursor_factory", "context", "prepare_threshold", "client_encoding"):
        given.pop(ours, None)
    driver = "psycopg" if is_psycopg3 else "psycopg2"
    return _Opening(_url(f"postgresql+{driver}", given, "dbname"), given)


def _mysql(wrapper: Any) -> _Opening:
    given = wrapper.get_connection_params()
    for ours in ("conv", "charset", "use_unicode", "client_flag"):
        given.pop(ours, None)
    driver = "pymysql" if wrapper.Database.__name__ == "pymysql" else "mysqldb"
    return _Opening(_url(f"mysql+{driver}", given, "database"), given)


def _sqlite(wrapper: Any) -> _Opening:
    name = str(wrapper.settings_dict["NAME"])
    if name == ":memory:":
        name = _IN_MEMORY
    query = {"uri": "true"} if name.startswith("file:") else {}
    if name.startswith("file:"):
        name, _, rest = name.partition("?")
        query |= dict(each.split("=", 1) for each in rest.split("&") if each)
    return _Opening(URL.create("sqlite", database=name, query=query), {})


def _url(scheme: str, given: dict[str, Any], database: str) -> URL:
    """Return the URL of what is given, and take that out of it."""
    port = given.pop("port", None)
    return URL.create(
        scheme,
        username=given.pop("user", None),
        password=given.pop("password", None),
        host=given.pop("host", None),
        port=None if port is None else int(port),
        database=given.pop(database, None),
    )


_VENDORS: dict[str, Callable[[Any], _Opening]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "sqlite": _sqlite,
}
