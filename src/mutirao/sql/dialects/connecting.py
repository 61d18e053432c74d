"""How to connect to a database: its URLs, its drivers, and the setup of its connections."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import URL, Engine

MAY_CREATE_FILE = "mutirao_creates"  # execution option: a file that does not exist may be made
SINGLE_STATEMENT = "mutirao_alone"  # execution option: a single statement, which needs no BEGIN

_HERE = {None, "", "127.0.0.1", "::1"}  # hosts of the same meaning as localhost


class Drivers(NamedTuple):
    """The SQLAlchemy drivers behind a URL scheme, and the extra that installs them.

    `alone`: options of the engines for single statements; `transactional`: of those for
    transactions. `usual`: parameters of a connection, as they stand in a URL, for URLs that do
    not give them; `fixed`: those that hold whatever a URL or an application's engine gives;
    `arguments`: those that no URL gives; `unprepared`: those of one that prepares no statements.
    `unprepare` has a new connection prepare none, where that needs no parameters: it holds for one
    that a `creator` of the application has opened, too. `direct`: a handler gets the driver's own
    connection past SQLAlchemy, where it is of a class of ours.
    """

    sync: str | None
    asynchronous: str | None
    extra: str = ""
    alone: Mapping[str, Any] = MappingProxyType({})
    transactional: Mapping[str, Any] = MappingProxyType({})
    usual: Mapping[str, str] = MappingProxyType({})
    fixed: Mapping[str, Any] = MappingProxyType({})
    arguments: Mapping[str, Any] = MappingProxyType({})
    unprepared: Mapping[str, Any] = MappingProxyType({})
    unprepare: Callable[[Any], None] = lambda connection: None
    direct: bool = False

    def completed(self, url: URL) -> URL:
        """Return a URL, completed with the default parameters that it lacks."""
        missing = {name: value for name, value in self.usual.items() if name not in url.query}
        return url.update_query_dict(missing)


class Place(NamedTuple):
    """The database that a notifier listens to, and how to connect if the URL does not say it.

    `opened` opens a connection of a driver in autocommit mode, which the caller closes.
    `schema` is the one that was chosen for the set of jobs.
    """

    url: URL
    opened: Callable[[], Awaitable[Any]] | None = None
    schema: str | None = None


def _called(url: URL) -> str:
    """Name a database of a server."""
    host = "localhost" if url.host in _HERE else url.host
    port = "" if url.port is None else f":{url.port}"
    return f"{host}{port}/{url.database or ''}"


@dataclass(frozen=True, slots=True)
class Connecting:
    """The parameters of connections to one kind of database.

    `usual`: the scheme that serves synchronous and asynchronous callers. `unsound`: why others,
    which SQLAlchemy knows, are refused.
    `in_thread`: workers use the synchronous driver in a thread, though there may be another.
    `in_file`: it is a file, whose connections no server counts.
    `separate_autocommit`: single statements have connections of their own. `level`: the isolation
    level that these need, where they cannot set it themselves; None: any.
    `set_up` says to a new session what it has to have, before SQLAlchemy looks at the server;
    `lent` does so to a caller's, and returns what puts back what was there.
    `refuse` returns why a URL cannot be used, or None; `refuse_schema` why a schema cannot be
    chosen. `settled` makes a URL mean the same database later, whatever a handler changes in the
    process. `qualify` gives that schema to the names of ours in a statement. `called` returns a
    name without secrets, the same for all that use one URL, and different for two databases.
    """

    schemes: Mapping[str, Drivers]
    usual: str
    unsound: Mapping[str, str] = field(default_factory=dict)
    in_thread: bool = False
    in_file: bool = False
    separate_autocommit: bool = True
    level: str | None = None
    refuse: Callable[[URL], str | None] = lambda url: None
    settled: Callable[[URL], URL] = lambda url: url
    refuse_schema: Callable[[str], str | None] = lambda schema: None
    qualify: Callable[[str, str], str] = lambda sql, schema: sql
    prepare: Callable[[Engine], None] = lambda engine: None
    set_up: Callable[[Any], None] | None = None
    lent: Callable[[Any], Callable[[], None]] = lambda connection: lambda: None
    called: Callable[[URL], str] = _called
