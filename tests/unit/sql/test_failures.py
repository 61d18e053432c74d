"""What errors of databases and drivers mean: the table is whole, and each way leads to it."""

from __future__ import annotations

import sqlite3
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pymysql
import pytest
from psycopg import errors
from sqlalchemy.exc import DBAPIError, InvalidatePoolError, TimeoutError as PoolTimeout

from mutirao.errors import (
    StoreBusy,
    StoreError,
    StoreGone,
    StoreRefused,
    StoreUnavailable,
    WorkerGone,
)
from mutirao.sql.drivers.failures import (
    SQLITE_CODES,
    SQLSTATES,
    is_denied,
    judge,
    translate_errors,
    translated,
    was_given_up,
)

# No error: success, warnings, no data.
_NO_ERROR = {"00", "01", "02"}


def _asyncpg(state: str) -> Exception:
    kinds = vars(asyncpg.exceptions).values()
    kind: type[Exception] = next(each for each in kinds if getattr(each, "sqlstate", None) == state)
    return kind("why")


def _sqlite(code: int, text: str = "why") -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


def test_every_class_of_sqlstate() -> None:
    """Of those that PostgreSQL has, by the list that psycopg carries."""
    found = {each.sqlstate[:2] for each in errors._sqlcodes.values() if each.sqlstate}
    assert len(found) > 35
    assert found - _NO_ERROR - {state[:2] for state in SQLSTATES} == set()


def test_every_code_of_sqlite() -> None:
    """Of the primary ones that SQLite still uses for errors."""
    codes = {getattr(sqlite3, f"SQLITE_{name}") for name in _PRIMARY}
    assert codes - SQLITE_CODES.keys() == set()


_PRIMARY = [
    "ABORT", "AUTH", "BUSY", "CANTOPEN", "CONSTRAINT", "CORRUPT", "ERROR", "FULL",
    "INTERNAL", "INTERRUPT", "IOERR", "LOCKED", "MISMATCH", "MISUSE", "NOLFS", "NOMEM",
    "NOTADB", "NOTFOUND", "PERM", "PROTOCOL", "RANGE", "READONLY", "SCHEMA", "TOOBIG",
]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "kind", "reconnect"),
    [
        ("08006", StoreUnavailable, True),
        ("22003", StoreRefused, False),
        ("22P05", StoreRefused, False),
        ("23505", StoreRefused, False),
        ("25006", StoreUnavailable, True),
        ("25P03", StoreUnavailable, True),
        ("28000", StoreUnavailable, True),
        ("28P01", StoreUnavailable, True),
        ("3D000", StoreUnavailable, True),
        ("40001", StoreBusy, False),
        ("40P01", StoreBusy, False),
        ("42501", StoreUnavailable, False),
        ("42P01", StoreError, False),
        ("42883", StoreError, False),
        ("42P05", StoreUnavailable, True),
        ("26000", StoreUnavailable, True),
        ("53100", StoreUnavailable, False),
        ("53300", StoreUnavailable, False),
        ("54000", StoreRefused, False),
        ("55P03", StoreBusy, False),
        ("57014", StoreBusy, False),
        ("57P01", StoreUnavailable, True),
        ("57P03", StoreUnavailable, True),
        ("58030", StoreUnavailable, True),
        ("P0001", StoreRefused, False),
        ("XX000", StoreUnavailable, True),
        ("XX002", StoreError, False),
    ],
)
def test_sqlstates(state: str, kind: type[StoreError], reconnect: bool) -> None:
    """Whatever the driver calls it: with its own class, and with SQLAlchemy's around it."""
    of_psycopg2 = psycopg2.OperationalError("why")
    _set(of_psycopg2, state)
    for error in (errors.lookup(state)("why"), _asyncpg(state), of_psycopg2):
        for each in (error, DBAPIError("SELECT", None, error)):
            failure = judge(each)
            assert failure is not None
            assert (failure.kind.value, failure.reconnect) == (kind, reconnect)
            assert type(translated(each)) is kind


@pytest.mark.parametrize(
    ("number", "kind", "again"),
    [
        (1020, StoreBusy, True),
        (1205, StoreBusy, True),
        (1213, StoreBusy, True),
        (1040, StoreUnavailable, False),
        (1045, StoreUnavailable, False),
        (1142, StoreUnavailable, False),
        (1406, StoreRefused, False),
        (4025, StoreRefused, False),
        (1062, StoreRefused, False),
        (1021, StoreUnavailable, False),
        (1030, StoreUnavailable, False),
        (1206, StoreUnavailable, False),
        (1615, StoreUnavailable, False),
        (1792, StoreUnavailable, False),
        (1054, StoreError, False),
        (1064, StoreError, False),
        (1093, StoreError, False),
        (1176, StoreError, False),
        (1305, StoreError, False),
        (1441, StoreRefused, False),  # a date out of range: not in our table, but in PyMySQL's
        (3636, StoreError, False),
        (2003, StoreUnavailable, False),
        (2013, StoreUnavailable, False),
    ],
)
def test_numbers_of_mariadb(number: int, kind: type[StoreError], again: bool) -> None:
    """Whatever class PyMySQL has for it; what the server gave up for others is tried again."""
    error = pymysql.err.error_map.get(number, pymysql.OperationalError)(number, "why")
    error.sqlstate = "HY000"  # as PyMySQL 1.2 says, of nearly all
    for each in (error, DBAPIError("SELECT", None, error)):
        found = translated(each)
        assert type(found) is kind
        found.__cause__ = each
        assert was_given_up(found) == again


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("--read-only", "the database is read-only"),
        ("--super-read-only", "the database is read-only"),
        ("--rds-read-only", "the database is read-only"),
        ("READ_ONLY", "the database is read-only"),
        ("--max-session-mem-used", "an option of the server forbids a statement"),
        ("--secure-file-priv", "an option of the server forbids a statement"),
        ("--skip-grant-tables", "an option of the server forbids a statement"),
    ],
)
def test_what_an_option_of_mariadb_forbids(option: str, why: str) -> None:
    """Its text alone says which one it is."""
    said = f"The MariaDB server is running with the {option} option so it cannot execute this"
    found = translated(pymysql.OperationalError(1290, said))
    assert type(found) is StoreUnavailable
    assert str(found).startswith(f"{why}: ")
    assert option in str(found)


def _set(error: psycopg2.Error, state: str) -> None:
    """psycopg2 sets the code from C alone."""
    error.__setstate__({"pgcode": state})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.OperationalError("the connection is closed"), StoreUnavailable),
        (psycopg.DataError("cannot dump NUL"), StoreRefused),
        (psycopg2.InterfaceError("connection already closed"), StoreUnavailable),
        (psycopg2.DatabaseError("error with no message from the libpq"), StoreUnavailable),
        (asyncpg.InterfaceError("connection is closed"), StoreUnavailable),
        (asyncpg.InternalClientError("unexpected"), StoreUnavailable),
        (_sqlite(sqlite3.SQLITE_BUSY), StoreUnavailable),
        (_sqlite(sqlite3.SQLITE_IOERR_WRITE), StoreUnavailable),
        (_sqlite(sqlite3.SQLITE_READONLY_DBMOVED), StoreUnavailable),
        (_sqlite(sqlite3.SQLITE_CONSTRAINT_CHECK), StoreRefused),
        (_sqlite(sqlite3.SQLITE_ERROR), StoreError),
        (_sqlite(sqlite3.SQLITE_CORRUPT_VTAB), StoreGone),
        (_sqlite(sqlite3.SQLITE_NOTADB), StoreGone),
        (sqlite3.ProgrammingError("Cannot operate on a closed database."), StoreUnavailable),
        (ConnectionRefusedError("refused"), StoreUnavailable),
        (TimeoutError(), StoreUnavailable),
        (PoolTimeout("none left"), StoreUnavailable),
        (InvalidatePoolError("another file"), StoreUnavailable),
    ],
)
def test_errors_of_drivers(error: Exception, kind: type[StoreError]) -> None:
    """Those without a SQLSTATE, by their code or their class."""
    assert type(translated(error)) is kind


def test_a_privilege_that_is_missing() -> None:
    """What was found, and what to do."""
    error = errors.InsufficientPrivilege("permission denied for table mutirao_job\nCONTEXT: …")
    assert str(translated(error)) == (
        "the role may not do that now: permission denied for table mutirao_job; grant it what"
        " `mutirao schema --grants` prints for what it does, as the tables' owner"
    )
    assert is_denied(error)
    assert not is_denied(errors.InsufficientPrivilege("permission denied for table orders"))


def test_a_worker_that_is_gone() -> None:
    """The functions of the schema say so by a code of their own."""
    raised = _custom("MTGON")
    assert type(translated(raised)) is WorkerGone


def test_a_code_of_the_application() -> None:
    """A trigger of its own refuses a row."""
    assert type(translated(_custom("ZZ001"))) is StoreRefused


def _custom(state: str) -> psycopg.Error:
    error = psycopg.DatabaseError("why")
    error.sqlstate = state
    return error


@pytest.mark.parametrize("error", [ValueError("x"), KeyError("x"), StoreBusy("x")])
def test_what_is_no_error_of_a_database(error: Exception) -> None:
    """It is left as it is."""
    assert judge(error) is None
    with pytest.raises(type(error)) as raised, translate_errors():
        raise error
    assert raised.value is error


def test_what_it_says() -> None:
    """The reason, and the first line of what the driver says; the rest stands behind it."""
    error: Any = errors.lookup("25006")("cannot execute INSERT\nLINE 1: …")
    with pytest.raises(StoreUnavailable) as raised, translate_errors():
        raise error
    assert str(raised.value) == "the database is read-only: cannot execute INSERT"
    assert raised.value.__cause__ is error
