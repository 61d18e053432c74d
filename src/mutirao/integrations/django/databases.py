"""How the application opens connections to a database of `settings.DATABASES`.

Workers have connections of their own, beside Django's. Each is opened with what Django itself would
connect with at that moment: a password that changes, an option, the name of a test's database.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router
from django.db.models.options import Options
from sqlalchemy import URL, Engine, NullPool, create_engine, event

# A database in memory has no name that another connection could open. Jobs that are enqueued and
# drained through Django's own are in it all the same.
_IN_MEMORY = "file:memorydb_mutirao?mode=memory&cache=shared"


# Values that Django's connections would convert by their settings come as text, and in UTC.
_TEXTS = dict.fromkeys(("args", "metadata", "result"), "CAST({} AS text)")
_MOMENTS = dict.fromkeys(
    ("run_at", "enqueued_at", "started_at", "finished_at"), "{} AT TIME ZONE 'UTC'"
)
_CONVERTED = {"postgresql": _TEXTS | _MOMENTS}


def selected(wrapper: Any, columns: Sequence[str]) -> str:
    """Return what reads columns of the views: JSON as text, and moments in UTC."""
    forms = _CONVERTED.get(wrapper.vendor, {})
    return ", ".join(forms.get(name, "{}").format(name) for name in columns)


def job_row() -> type:
    """Return a stand-in for the model of jobs, for routers that are asked before models load."""
    meta = Options(None, "mutirao")
    meta.object_name, meta.model_name, meta.db_table = "Job", "job", "mutirao_jobs"
    return type("Job", (), {"_meta": meta})


def chosen_alias(given: str | None) -> str:
    """Return the alias of the database with the jobs: the given one, or that of the routers."""
    alias: str = given or router.db_for_write(job_row())
    return alias


def engine_of(alias: str) -> Engine:
    """Return an engine that opens connections as Django does for an alias; it has opened none.

    Raises:
        ImproperlyConfigured: it is no database that jobs can be in.
    """
    url = _DjangoOpening.of(alias).url
    # SQLAlchemy would have a pool of its own choice where no connection is ever opened.
    pool: dict[str, Any] = {"poolclass": NullPool} if url.query.get("mode") == "memory" else {}
    engine = create_engine(url._replace(password=None), **pool)

    @event.listens_for(engine, "do_connect")
    def _connect_as_django(dialect: Any, record: Any, args: Any, given: dict[str, Any]) -> None:
        opening = _DjangoOpening.of(alias)
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


class _DjangoOpening(NamedTuple):
    url: URL
    options: dict[str, Any]

    @classmethod
    def of(cls, alias: str) -> "_DjangoOpening":
        wrapper = connections.create_connection(alias)
        parse = _VENDORS.get(wrapper.vendor)
        if parse is None:
            raise ImproperlyConfigured(
                f"DATABASES[{alias!r}] is {wrapper.display_name}; expected PostgreSQL, SQLite,"
                " MySQL or MariaDB. Name another alias: MUTIRAO = {'DATABASE': …}"
            )
        return parse(wrapper)


def _postgresql(wrapper: Any) -> _DjangoOpening:
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    given = wrapper.get_connection_params()
    for ours in ("cursor_factory", "context", "prepare_threshold", "client_encoding"):
        given.pop(ours, None)
    driver = "psycopg" if is_psycopg3 else "psycopg2"
    return _DjangoOpening(_url(f"postgresql+{driver}", given, "dbname"), given)


def _mysql(wrapper: Any) -> _DjangoOpening:
    given = wrapper.get_connection_params()
    for ours in ("conv", "charset", "use_unicode", "client_flag"):
        given.pop(ours, None)
    driver = "pymysql" if wrapper.Database.__name__ == "pymysql" else "mysqldb"
    return _DjangoOpening(_url(f"mysql+{driver}", given, "database"), given)


def _sqlite(wrapper: Any) -> _DjangoOpening:
    name = str(wrapper.settings_dict["NAME"])
    if name == ":memory:":
        name = _IN_MEMORY
    query = {"uri": "true"} if name.startswith("file:") else {}
    if name.startswith("file:"):
        name, _, rest = name.partition("?")
        query |= dict(each.split("=", 1) for each in rest.split("&") if each)
    return _DjangoOpening(URL.create("sqlite", database=name, query=query), {})


def _url(scheme: str, given: dict[str, Any], database: str) -> URL:
    """Return the URL of the given settings, and remove its parts from them."""
    port = given.pop("port", None)
    return URL.create(
        scheme,
        username=given.pop("user", None),
        password=given.pop("password", None),
        host=given.pop("host", None),
        port=None if port is None else int(port),
        database=given.pop(database, None),
    )


_VENDORS: dict[str, Callable[[Any], _DjangoOpening]] = {
    "postgresql": _postgresql,
    "mysql": _mysql,
    "sqlite": _sqlite,
}
