"""The meaning of each error of a database or its driver, in one table.

Every error is of one of these kinds. A worker waits until a `PASSING` error is over. A `BUSY` error
passes too, but one row may be the reason, so a batch is split. `ROW` means that a value of a row is
refused: that row is searched for, and the others continue. `GONE` is for a worker that others
considered gone. A `STATEMENT` error repeats until a person changes the schema or the code: a worker
that meets only such errors for a while ends. `FATAL` ends it at once.

SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html. SQLite:
https://www.sqlite.org/rescode.html. Where a driver gives neither, the class of its error decides
(PEP 249).
"""

from enum import Enum
from typing import NamedTuple

from sqlalchemy.exc import DBAPIError, DisconnectionError, TimeoutError as PoolTimeout

from mutirao.errors import (
    StoreBusy,
    StoreError,
    StoreGone,
    StoreRefused,
    StoreUnavailable,
    WorkerGone,
)


class Kind(Enum):
    """The kind of a failure; the value is the error to raise for it."""

    PASSING = StoreUnavailable
    BUSY = StoreBusy
    GONE = WorkerGone
    ROW = StoreRefused
    STATEMENT = StoreError
    FATAL = StoreGone


PASSING, BUSY, GONE, ROW, STATEMENT, FATAL = Kind


class Failure(NamedTuple):
    """The kind of a failure, its reason, and what happens to the connection.

    `reconnect`: the connection, and others that are as old, must not be used again. `advice`: what
    to do, if the database's own message leaves that open.
    """

    kind: Kind
    why: str
    reconnect: bool = False
    advice: str = ""


_LOST = Failure(PASSING, "the connection was lost", reconnect=True)
_UNREACHABLE = Failure(PASSING, "the database cannot be reached", reconnect=True)
_INTERVENED = Failure(PASSING, "an operator intervened", reconnect=True)
UNPREPARED = Failure(
    PASSING,
    "a prepared statement is not as it was left (PgBouncer knows them since 1.21, with"
    " max_prepared_statements)",
    reconnect=True,
)
WRONG_ISOLATION = Failure(
    PASSING,
    "sessions have another isolation level than READ COMMITTED by default (ALTER ROLE … SET"
    " default_transaction_isolation TO 'read committed' makes workers faster)",
)
NOT_SERIALIZABLE = Failure(BUSY, "the transaction does not fit what others wrote (serialization)")
DENIED = Failure(
    PASSING,  # grants may change while programs run
    "the role may not do that now",
    advice="grant it what `mutirao schema --grants` prints for what it does, as the tables' owner",
)
_NOT_LET_IN = Failure(PASSING, "the database does not let us in")
_WITH_TLS = "connect with TLS: ?ssl_ca=… in the URL"
_VALUE = Failure(ROW, "the database refuses a value")
_NO_TEXT = Failure(ROW, "a text in a row is not UTF-8")  # SQLite keeps whatever bytes it is given
_CHECKED = Failure(
    ROW,
    "the database refuses a value",
    advice="SHOW CREATE TABLE shows that check. MySQL's JSON has no number larger than a double",
)
_STATEMENT = Failure(STATEMENT, "the database refuses a statement")
_TRIGGER = Failure(ROW, "a trigger or a rule of the database refuses a row")

# By SQLSTATE or its prefix: the longest match decides.
SQLSTATES: dict[str, Failure] = {
    "03": _STATEMENT,  # sent before the previous one had ended: a defect of the client
    "08": _LOST,
    "09": _TRIGGER,
    # Also "cached plan must not change result type", after a migration: a new connection helps.
    "0A": Failure(STATEMENT, "the database does not support a statement", reconnect=True),
    "0B": _STATEMENT,
    "0F": _STATEMENT,
    "0L": _STATEMENT,
    "0P": _STATEMENT,
    "0Z": _STATEMENT,
    "10": _VALUE,
    "20": _STATEMENT,
    "21": _VALUE,
    "22": _VALUE,
    "23": _VALUE,
    "24": _STATEMENT,
    # A pooler, or an interrupted call, left a transaction open or failed.
    "25": Failure(PASSING, "the connection is in a transaction that is over", reconnect=True),
    # A standby, a primary that was demoted, or a maintenance window. The address may lead to
    # another server by now, so the connection is replaced.
    "25006": Failure(PASSING, "the database is read-only", reconnect=True),
    "25P03": Failure(PASSING, "the server ended an idle transaction", reconnect=True),
    "26": UNPREPARED,  # a pooler prepared it on another connection, or a user deallocated it
    "27": _TRIGGER,
    # Roles and passwords may change while programs run.
    "28": Failure(PASSING, "the database does not let us in", reconnect=True),
    "2B": _STATEMENT,
    "2D": _STATEMENT,
    "2F": _TRIGGER,
    "34": _STATEMENT,
    "38": _TRIGGER,
    "39": _TRIGGER,
    "3B": _STATEMENT,
    "3D": Failure(PASSING, "there is no such database", reconnect=True),  # renamed, or restored
    "3F": _STATEMENT,
    "40": Failure(BUSY, "the database gave up a transaction for others"),
    "40001": NOT_SERIALIZABLE,
    "40002": _VALUE,
    "40003": _LOST,  # it is unknown whether the statement was completed
    "40P01": Failure(BUSY, "the transaction and others waited for each other (deadlock)"),
    "42": _STATEMENT,
    "42501": DENIED,
    "42P05": UNPREPARED,
    "44": _VALUE,
    "53": Failure(PASSING, "the server lacks resources"),  # memory, disk, connections
    "54": Failure(ROW, "a value is too large or too complex for the database"),
    "55": Failure(PASSING, "the database is not in the state that a statement needs"),
    "55006": Failure(BUSY, "something is used by somebody else"),
    "55P03": Failure(BUSY, "a lock was not to be had in time"),
    "57": _INTERVENED,
    "57014": Failure(BUSY, "the statement took longer than the server allows, or was cancelled"),
    "58": Failure(PASSING, "the server's system failed", reconnect=True),
    "72": Failure(PASSING, "the snapshot is too old"),
    "F0": Failure(PASSING, "the server's configuration is broken", reconnect=True),
    "HV": _STATEMENT,
    "P0": _TRIGGER,
    "MTGON": Failure(GONE, "the worker was taken for gone"),  # raised by `mutirao_require`
    "MTISO": WRONG_ISOLATION,  # raised by the functions too
    "MTLEV": Failure(
        STATEMENT,
        "a job that others may wait for ends in READ COMMITTED only (leave SET TRANSACTION out)",
    ),
    "XX": Failure(PASSING, "the server met an error of its own", reconnect=True),
    "XX001": Failure(STATEMENT, "the data of a table are corrupted"),
    "XX002": Failure(STATEMENT, "an index is corrupted; reindex it"),
}

STALE_SQLSTATE = "MTSTL"  # raised by `mutirao_complete`

# By SQLite's primary result code: the low byte of the extended one.
SQLITE_CODES: dict[int, Failure] = {
    1: _STATEMENT,  # ERROR: no such table or column, a syntax error
    2: Failure(PASSING, "SQLite met an error of its own", reconnect=True),  # INTERNAL
    3: Failure(PASSING, "the file's access mode does not allow that", reconnect=True),  # PERM
    4: Failure(PASSING, "SQLite gave a statement up"),  # ABORT
    # The whole file is locked, so a smaller batch does not help: not BUSY in our sense.
    5: Failure(PASSING, "somebody else writes to the database file"),  # BUSY
    6: Failure(PASSING, "a table is locked by this process"),  # LOCKED
    7: Failure(PASSING, "SQLite got no memory"),  # NOMEM
    8: Failure(PASSING, "the database file cannot be written", reconnect=True),  # READONLY
    9: Failure(PASSING, "the statement took longer than it may"),  # INTERRUPT
    10: Failure(PASSING, "reading or writing the database file failed", reconnect=True),  # IOERR
    11: Failure(FATAL, "the database file is corrupted; restore it from a backup"),  # CORRUPT
    12: _STATEMENT,  # NOTFOUND
    13: Failure(PASSING, "the disk is full"),  # FULL
    14: Failure(PASSING, "the database file cannot be opened", reconnect=True),  # CANTOPEN
    15: Failure(PASSING, "the file's locks are in disorder", reconnect=True),  # PROTOCOL
    17: Failure(PASSING, "the schema changed meanwhile", reconnect=True),  # SCHEMA
    18: Failure(ROW, "a value is too large for the database"),  # TOOBIG
    19: _VALUE,  # CONSTRAINT
    20: _VALUE,  # MISMATCH
    21: Failure(STATEMENT, "SQLite was called wrongly", reconnect=True),  # MISUSE
    22: Failure(PASSING, "the system has no support for so large a file"),  # NOLFS
    23: _STATEMENT,  # AUTH
    25: _STATEMENT,  # RANGE: a parameter too many or too few
    26: Failure(FATAL, "the file is no SQLite database"),  # NOTADB
}

# By the number of MySQL's or MariaDB's server, below 2000 or from 3000 on, or of the client.
# https://mariadb.com/kb/en/mariadb-error-codes/
MARIADB_NUMBERS: dict[int, Failure] = {
    **dict.fromkeys((1044, 1045, 1130, 1698), _NOT_LET_IN),
    # A client that cannot sign in as the server asks, and a server that wants TLS.
    **dict.fromkeys((1251, 2059, 2061, 3159), _NOT_LET_IN._replace(advice=_WITH_TLS)),
    **dict.fromkeys((1142, 1143, 1227, 1370), DENIED),
    # Memory, disk, threads, and room for locks.
    **dict.fromkeys((1021, 1037, 1038, 1041, 1114, 1135, 1206), SQLSTATES["53"]),
    **dict.fromkeys((1030, 1180), SQLSTATES["58"]),  # reading or writing a table, a commit
    1047: SQLSTATES["57"],  # a node of Galera that does not serve now
    **dict.fromkeys((1040, 1203, 1226, 1637), SQLSTATES["53"]),  # connections, transactions
    **dict.fromkeys((1053, 1158, 1159, 1160, 1161, 1927), _LOST),
    **dict.fromkeys((2006, 2013, 2014, 2055, 4031), _LOST),
    **dict.fromkeys((2002, 2003, 2005), _UNREACHABLE),
    1020: Failure(BUSY, "the transaction does not fit what others wrote (snapshot)"),
    1049: SQLSTATES["3D"],
    1153: SQLSTATES["54"],  # a packet that is too large, after which the server hangs up
    1205: Failure(BUSY, "others held a lock for too long"),
    1213: SQLSTATES["40P01"],
    3572: Failure(BUSY, "others hold a lock"),  # MySQL's word for NOWAIT; MariaDB's is 1205
    # See _is_read_only. A new session may have what an option allows: --max-session-mem-used.
    1290: Failure(PASSING, "an option of the server forbids a statement", reconnect=True),
    **dict.fromkeys((1792, 1836), SQLSTATES["25006"]),
    **dict.fromkeys((1317, 1969, 3024), SQLSTATES["57014"]),
    **dict.fromkeys((1412, 1615), SQLSTATES["55"]),  # the table was changed meanwhile
    **dict.fromkeys((1048, 1062, 1264, 1265, 1292, 1364, 1366, 1406, 1451, 1452), _VALUE),
    # Texts and JSON, too.
    **dict.fromkeys((1300, 1411, 1690, 3140, 3141, 3157, 4037, 4038), _VALUE),
    3819: _CHECKED,
    4025: _CHECKED._replace(
        advice="SHOW CREATE TABLE shows that check. MariaDB's JSON has 32 levels at most"
    ),
    1709: _STATEMENT._replace(
        advice="the server's innodb_default_row_format is compact or redundant; have it set to"
        " dynamic, its default, and migrate again"
    ),
    1644: _TRIGGER,
}
_GIVEN_UP = (
    *(SQLSTATES["40001"], SQLSTATES["40P01"]),
    *(MARIADB_NUMBERS[number] for number in (1020, 1205, 3572)),
)
DUPLICATE_KEY_NUMBER = 1062  # a key that has to be unique is there already

# By the class of the error, or a base class, if there is no code. psycopg2 raises a plain
# DatabaseError on a broken connection.
_CLASSES: dict[str, Failure] = {
    "DisconnectionError": _LOST,
    "ConnectionTimeout": _UNREACHABLE,
    "InternalClientError": _LOST,  # asyncpg: the server ended a connection that was idle
    "DataError": _VALUE,
    "IntegrityError": _VALUE,
    "OperationalError": _UNREACHABLE,
    "InternalError": _LOST,
    "InterfaceError": _LOST,
    "NotSupportedError": _STATEMENT,
    "ProgrammingError": _STATEMENT,
    "DatabaseError": _LOST,
}
_OF_MYSQL = ("pymysql", "MySQLdb")
_DRIVERS = ("psycopg", "psycopg2", "asyncpg", "sqlite3", "aiosqlite", "sqlalchemy", *_OF_MYSQL)


def judge(error: BaseException) -> Failure | None:
    """Return the failure that an error means; None if it is not an error of a database."""
    if isinstance(error, DBAPIError):
        found = judge(error.orig) if error.orig is not None else None
        lost = error.connection_invalidated and not (found and found.reconnect)
        return _LOST if lost else found or _LOST
    if isinstance(error, PoolTimeout):
        return Failure(PASSING, "all connections are in use")
    if isinstance(error, DisconnectionError):
        return _LOST
    if (said := beneath(error)) is not error:
        return judge(said)
    return _by_code(error) or _by_class(error)


def beneath(error: BaseException) -> BaseException:
    """Return the driver's error inside SQLAlchemy's or Django's; other errors unchanged."""
    if isinstance(error, DBAPIError):
        return error if error.orig is None else error.orig
    if type(error).__module__ == "django.db.utils":
        return error.__cause__ or error
    return error


def was_given_up(error: StoreError) -> bool:
    """Return whether the database aborted a transaction for another one: retry it at once."""
    return error.__cause__ is not None and judge(error.__cause__) in _GIVEN_UP


def was_undone(error: BaseException) -> bool:
    """Return whether the server says that a statement was rolled back because of others."""
    failure = judge(error)
    return failure is not None and failure.kind is BUSY


def is_taken(error: DBAPIError) -> bool:
    """Return whether MariaDB refused a row because its key is taken."""
    return _number(error.orig) == DUPLICATE_KEY_NUMBER


def translated(error: BaseException) -> StoreError | None:
    """Return the library's error for an error of a database; None if it is not one."""
    failure = judge(error)
    if failure is None:
        return None
    advice = f"; {failure.advice}" if failure.advice else ""
    translation: StoreError = failure.kind.value(f"{failure.why}: {short(error)}{advice}")
    return translation


def is_no_text(error: BaseException) -> bool:
    """Return whether a text in a row is not UTF-8, which SQLite alone keeps."""
    return judge(error) is _NO_TEXT


# Codes of PostgreSQL when it ends a session in place of an answer, with the request undone; and for
# a statement that was prepared in another session.
_ENDED = ("57P01", "57P05", "26000")


def was_ended(error: BaseException) -> bool:
    """Return whether the server had ended the session, so that it did not do what was asked.

    A pooler gives its client such a session of the server's, and keeps the client.
    """
    said = beneath(error)
    return (getattr(said, "sqlstate", None) or getattr(said, "pgcode", None)) in _ENDED


def lost_error(error: BaseException, *, may_be_committed: bool) -> StoreError | None:
    """Return the error of a call that lost its connection; None if it means something else.

    Its message says whether the call may be repeated: `may_be_committed` is True once a COMMIT, or
    a statement outside a transaction, may have reached the server.
    """
    failure = judge(error)
    if failure not in (_LOST, _UNREACHABLE, _INTERVENED):  # psycopg2 gives a lost one no code
        return None
    known = "nothing of it was committed, so it may be repeated"
    unknown = "whether it was committed is not known, so look before it is repeated"
    return StoreUnavailable(
        f"{failure.why}: {short(error)}; {unknown if may_be_committed else known}"
    )


def is_denied(error: BaseException, schema: str | None = None) -> bool:
    """Return whether a role lacks a privilege on Mutirão's objects, or on their schema."""
    if judge(error) is not DENIED:
        return False
    return "mutirao_" in short(error) or (schema is not None and schema in short(error))


def is_stale(error: BaseException) -> bool:
    """Return whether a run was to complete a job that it does not hold; see `Rules.complete`."""
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state == STALE_SQLSTATE


def short(error: BaseException) -> str:
    """Return the first line of a driver's message."""
    cause = beneath(error)
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(cause).__name__


class translate_errors:  # noqa: N801 (used like `contextlib.suppress`)
    """A context that turns errors of drivers into the library's; all others stay as they are.

    A class, because every enqueued job passes it: a generator takes 1 µs more.
    """

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        """Raise the library's error instead."""
        if error is not None and (translation := translated(error)) is not None:
            raise translation from error


def _by_code(error: BaseException) -> Failure | None:
    number = _number(error)
    if number is not None:  # PyMySQL 1.2 has an SQLSTATE beside it, which is HY000 for most
        found = SQLSTATES["25006"] if _is_read_only(error, number) else MARIADB_NUMBERS.get(number)
        return found or (_STATEMENT if _is_unknown(error, number) else None)
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    if isinstance(state, str):
        for length in (5, 3, 2):
            if (found := SQLSTATES.get(state[:length])) is not None:
                return found
        return _TRIGGER  # the application's own code
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return SQLITE_CODES.get(code & 0xFF, _STATEMENT)
    return None


def _is_read_only(error: BaseException, number: int) -> bool:
    """Return whether the option that forbids a statement, which the text names, is `read_only`.

    Others have the same number: --max-session-mem-used, for example.
    """
    return number == 1290 and "read_only" in str(error).lower().replace("-", "_")


def _is_unknown(error: BaseException, number: int) -> bool:
    """Return whether its driver does not know what an error of the server is.

    All others are `OperationalError` there, a missing column like a lost connection. What the
    client itself met has a number from 2000 on.
    """
    of_server = 1000 <= number < 2000 or number >= 3000
    return of_server and type(error).__name__ == "OperationalError"


def _number(error: object) -> int | None:
    """Return the number of an error of PyMySQL, aiomysql (which has the same) or mysqlclient."""
    args = error.args if isinstance(error, Exception) else ()
    ours = type(error).__module__.startswith(_OF_MYSQL) and args
    return args[0] if ours and isinstance(args[0], int) else None


def _by_class(error: BaseException) -> Failure | None:
    if isinstance(error, OSError):  # among others, raised by asyncpg while it connects
        return _UNREACHABLE
    kind = type(error)
    if kind.__module__.partition(".")[0] not in _DRIVERS:
        return None
    if str(error).startswith("Could not decode to UTF-8"):
        return _NO_TEXT
    if "Cannot operate on a closed" in str(error):  # sqlite3, closed by another thread
        return _LOST
    names = (each.__name__ for each in kind.__mro__)
    return next((_CLASSES[name] for name in names if name in _CLASSES), None)
