"""Connecting to MySQL and MariaDB: PyMySQL or mysqlclient in a thread, aiomysql for coroutines.

aiomysql serves the coroutines that use `job.transaction()`, and takes the parameters of PyMySQL,
whose protocol it speaks.
"""

import ssl
from typing import Any

from sqlalchemy import Engine, event

from mutirao.sql.dialects import singlestore
from mutirao.sql.dialects.connecting import SINGLE_STATEMENT, Connecting, Drivers
from mutirao.sql.dialects.mysql import session
from mutirao.sql.dialects.mysql.authentication import say_what_is_missing
from mutirao.sql.drivers.mysql import MULTI_STATEMENTS

CONNECT_TIMEOUT = 10  # seconds to open a connection, signing in included
_COMMON: dict[str, Any] = {
    "transactional": {"isolation_level": "READ COMMITTED"},
    "fixed": {"charset": "utf8mb4", "use_unicode": True},
    "arguments": {"connect_timeout": CONNECT_TIMEOUT},
}
_PYMYSQL = Drivers(*("mysql+pymysql", "mysql+aiomysql", "mysql"), **_COMMON)
_MYSQLDB = Drivers(*("mysql+mysqldb", None, "mysqlclient"), **_COMMON)
_ASYNCMY = (
    "asyncmy is not used: before 0.2.18 a query that was cancelled left its answer to the next one,"
    " and its connections cannot be lent to handlers. Use {0}+aiomysql:// or {0}+pymysql://, and"
    " run: pip install 'mutirao[mysql]'"
)
# Of PyMySQL: each call has a limit of its own, and aiomysql has TLS where it is asked for only.
_NOT_KNOWN = ("read_timeout", "write_timeout", "ssl_disabled")


def _prepare(engine: Engine) -> None:
    if engine.driver == "aiomysql":
        event.listen(engine, "do_connect", _translate)
    if engine.driver == "pymysql":
        _connect_as_ours(engine.dialect)
    if not engine.dialect.is_async and engine.get_execution_options().get(SINGLE_STATEMENT):
        event.listen(engine, "do_connect", _join)
    say_what_is_missing(engine)  # after those that change parameters, as it connects

    @event.listens_for(engine, "first_connect")
    def _refuse(connection: Any, record: object) -> None:
        singlestore.refuse(connection)  # before SQLAlchemy, or anybody, asks for a version


def _connect_as_ours(dialect: Any) -> None:
    """Open connections of our own class, unless the application says how to open them."""
    from mutirao.sql.drivers.pymysql import OwnConnection

    dialect.connect = OwnConnection


def _translate(dialect: object, record: object, args: object, parameters: dict[str, Any]) -> None:
    """Translate PyMySQL's parameters of a URL into aiomysql's."""
    for name in _NOT_KNOWN:
        parameters.pop(name, None)
    if isinstance(given := parameters.get("ssl"), dict):
        parameters["ssl"] = _context(given)


def _join(dialect: object, record: object, args: object, parameters: dict[str, Any]) -> None:
    """Allow several statements in one message. No handler gets such a connection."""
    parameters["client_flag"] = parameters.get("client_flag", 0) | MULTI_STATEMENTS


def _context(given: dict[str, Any]) -> ssl.SSLContext:
    """Return the context that PyMySQL makes of `ssl_ca` and the like."""
    known = given.get("ca") or given.get("capath")
    context = ssl.create_default_context(cafile=given.get("ca"), capath=given.get("capath"))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # which MySQL's own certificates do not pass
    context.check_hostname = bool(known) and given.get("check_hostname", True)
    context.verify_mode = ssl.CERT_REQUIRED if known else ssl.CERT_NONE
    if given.get("cert"):
        context.load_cert_chain(given["cert"], keyfile=given.get("key"))
    if given.get("cipher"):
        context.set_ciphers(given["cipher"])
    return context


def _refuse_schema(schema: str) -> str:
    return (
        f"schema={schema!r} was given for a database that has no schemas of its own; leave schema="
        " out, and give each set of jobs a database"
    )


CONNECTING = Connecting(
    schemes={
        f"{name}{driver}": drivers
        for name in ("mysql", "mariadb")
        for driver, drivers in {
            "": _PYMYSQL,
            "+pymysql": _PYMYSQL,
            "+aiomysql": _PYMYSQL,
            "+mysqldb": _MYSQLDB,
        }.items()
    },
    usual="mysql+pymysql",
    unsound={f"{name}+asyncmy": _ASYNCMY.format(name) for name in ("mysql", "mariadb")},
    in_thread=True,
    prepare=_prepare,
    set_up=session.set_up,
    lent=session.lent,
    refuse_schema=_refuse_schema,
)
