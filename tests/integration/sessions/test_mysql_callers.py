"""A caller's session of MySQL or MariaDB: whatever it has set, the same is written, and it stays.

Each test does all that takes `conn=`, in a session of one kind, and compares all rows of ours with
those that a usual session leaves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import aiomysql
import MySQLdb
import pymysql
import pytest
from sqlalchemy import create_engine, make_url

from mutirao import Mutirao, Supersede, chain, group, step
from mutirao.errors import StoreRefused
from mutirao.sql import migrations
from mutirao.sql.schema.tables import metadata
from mutirao.testing import drain
from tests.integration.sessions.kit import MODES
from tests.support.mariadb import MysqlServer, empty

OTHER = "é漢🙂"  # characters of two, three and four bytes
SESSIONS = [
    *(
        f"SET SESSION sql_mode = '{mode}'"
        for mode in (
            *("", MODES, "ANSI,ONLY_FULL_GROUP_BY", "TRADITIONAL"),
            *("PAD_CHAR_TO_FULL_LENGTH", "NO_AUTO_VALUE_ON_ZERO"),
        )
    ),
    "SET SESSION sql_select_limit = 1",
    "SET SESSION sql_select_limit = 0",
    "SET SESSION sql_safe_updates = 1",
    "SET SESSION completion_type = 1",
    "SET SESSION completion_type = 2",
    "SET SESSION max_join_size = 2",
    "SET SESSION sql_auto_is_null = 1, foreign_key_checks = 0, unique_checks = 0",
    "SET SESSION time_zone = '+13:00', group_concat_max_len = 4, max_sort_length = 8",
    "SET SESSION div_precision_increment = 0, lc_time_names = 'pt_BR', lc_messages = 'de_DE'",
    "SET NAMES latin1",
    "SET NAMES utf8mb3",
    "SET NAMES gbk",
    "SET SESSION collation_connection = latin1_swedish_ci",
    "SET SESSION collation_connection = utf8mb4_unicode_ci",
    "SET SESSION character_set_results = latin1",
    "SET SESSION character_set_results = NULL",
    "SET SESSION character_set_client = latin1, character_set_connection = utf8mb3",
]
OF_MARIADB = [
    "SET SESSION sql_mode = 'ORACLE'",
    "SET SESSION sql_mode = 'SIMULTANEOUS_ASSIGNMENT,TIME_ROUND_FRACTIONAL'",
    "SET SESSION sql_mode = 'EMPTY_STRING_IS_NULL'",
    "SET SESSION default_regex_flags = 'EXTENDED', check_constraint_checks = 0",
]


@pytest.fixture(scope="module")
def database(mysql: MysqlServer) -> Iterator[str]:
    """The name of a database with our tables."""
    name = mysql.create_database()
    migrations.upgrade(mysql.url(name))
    yield name
    mysql.drop_database(name)


@pytest.fixture(scope="module")
def shop(mysql: MysqlServer, database: str) -> Iterator[Mutirao]:
    """An application whose tasks use whatever is decided where a job is enqueued."""
    app = Mutirao(mysql.url(database))

    @app.task
    def plain(note: str = "") -> None: ...

    @app.task(fair_by="ação")
    def fair(ação: str) -> None: ...

    def merge(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
        return {**newer, "what": older["what"] + newer["what"]}

    @app.task(supersede=Supersede("kind", {("new", "edit"): "merge"}, merge))
    def tell(kind: str, what: str) -> None: ...

    yield app
    app.close()


Rows = dict[str, list[tuple[object, ...]]]


def work(app: Mutirao, conn: Any) -> None:
    """Do all that takes a connection, in its transactions or in their own."""
    plain, fair, tell = (app.tasks[name] for name in ("plain", "fair", "tell"))
    plain.using(conn=conn, tenant=OTHER, group=OTHER, tags=[OTHER, "x"]).enqueue(note=OTHER)
    plain.using(conn=conn).enqueue(note="quote ' \" \\ % ? end")
    plain.using(conn=conn, queue=f"fila {OTHER}", metadata={"é": OTHER}).enqueue()
    fair.using(conn=conn).enqueue(OTHER)
    for on_conflict in ("keep", "replace", "rerun"):
        for note in (OTHER, "later"):
            again = plain.using(conn=conn, key=f"{on_conflict} {OTHER}", on_conflict=on_conflict)
            again.enqueue(note=note)
    app.enqueue_many((fair.job(f"{OTHER}{n}") for n in range(30)), conn=conn)
    keyed = [plain.using(key=f"{OTHER} {n % 3}").job(note=OTHER) for n in range(6)]
    app.enqueue_many([*keyed, plain.job(OTHER)], conn=conn)
    for kind in ("new", "edit", "edit", "other"):
        tell.using(conn=conn, key=OTHER).enqueue(kind, OTHER)
    undo = plain.job(note=OTHER)
    steps = chain(
        step(plain.job(), stage=OTHER, compensate=undo), group(plain.job(), fair.job(OTHER))
    )
    app.enqueue_graph(steps, name=OTHER, on_dead="compensate", conn=conn)
    for _ in range(2):
        app.inbox(conn).remember(OTHER, f"message {OTHER}")


def rows(mysql: MysqlServer, database: str) -> Rows:
    """Return all rows of all tables of ours, without moments."""
    found = {}
    with mysql.connect(database, charset="utf8mb4") as connection:
        for name in sorted(metadata.tables):
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {name}")  # noqa: S608 (names of ours)
                found[name] = sorted((_without_moments(row) for row in cursor.fetchall()), key=repr)
    return found


def _without_moments(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple("a moment" if isinstance(v, int) and abs(v) > 10**14 else v for v in row)


Open = Callable[..., Any]


def _pymysql(parameters: dict[str, Any]) -> Any:
    return pymysql.connect(**parameters)


def _mysqldb(parameters: dict[str, Any]) -> Any:
    return MySQLdb.connect(**parameters)


def _sqlalchemy(parameters: dict[str, Any]) -> Any:
    return create_engine(
        "mysql+pymysql://", creator=lambda: pymysql.connect(**parameters)
    ).connect()


def _autocommit(parameters: dict[str, Any]) -> Any:
    return pymysql.connect(**parameters, autocommit=True)


@pytest.fixture
def opened(mysql: MysqlServer, database: str) -> Iterator[Callable[..., Any]]:
    """A function that opens a connection in some way, as a program does; all are closed."""
    conns: list[Any] = []

    def opener(way: Open, **options: Any) -> Any:
        url = make_url(mysql.url(database))
        values = {"host": url.host, "port": url.port, "user": url.username}
        values |= {"password": url.password or "", "database": database, "charset": "utf8mb4"}
        conns.append(way({**values, **options}))
        return conns[-1]

    yield opener
    for conn in conns:
        conn.close()


@pytest.fixture(scope="module")
def usual(mysql: MysqlServer, database: str, shop: Mutirao) -> Rows:
    """What a session leaves that has set nothing, as programs connect today."""
    with mysql.connect(database, charset="utf8mb4", autocommit=False) as conn:
        work(shop, conn)
        conn.commit()
    return rows(mysql, database)


def _empty(mysql: MysqlServer, database: str) -> None:
    with mysql.connect(database) as connection, connection.cursor() as cursor:
        empty(connection)
        cursor.execute("TRUNCATE mutirao_job")  # whose numbers begin anew


def _say(conn: Any, statement: str) -> None:
    if hasattr(conn, "exec_driver_sql"):
        conn.exec_driver_sql(statement)
    else:
        conn.cursor().execute(statement)


@pytest.fixture
def is_mariadb(mysql: MysqlServer) -> bool:
    """Whether the server is MariaDB."""
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        return "mariadb" in str(cursor.fetchone()).lower()


# What depends on the driver, or on whose the transaction is.
FEW = ("SET NAMES latin1", SESSIONS[1], "SET SESSION sql_select_limit = 1")
CASES = [
    *((_pymysql, said) for said in (*SESSIONS, *OF_MARIADB)),
    *((_autocommit, said) for said in (*FEW, "SET SESSION completion_type = 1")),
    *((way, said) for way in (_mysqldb, _sqlalchemy) for said in FEW),
]


@pytest.mark.repeats(
    "_mysqldb", "_sqlalchemy", decided="tests/integration/sessions/test_mysql_callers.py"
)
@pytest.mark.parametrize(("way", "said"), CASES)
def test_the_same_is_written(
    mysql: MysqlServer, database: str, shop: Mutirao, opened: Open, usual: Rows,
    said: str, way: Open, is_mariadb: bool,
) -> None:  # fmt: skip
    """In each session the same rows are left, and the session has what it had."""
    if said in OF_MARIADB and not is_mariadb:
        return
    if not is_mariadb:  # MySQL reads the patterns of checks by it
        said = said.replace("NO_BACKSLASH_ESCAPES,", "")
    _empty(mysql, database)
    conn = opened(way)
    _say(conn, said)
    before = _settings(conn)
    work(shop, conn)
    _say(conn, "COMMIT AND NO CHAIN NO RELEASE")
    assert _settings(conn) == before
    assert rows(mysql, database) == usual


@pytest.mark.parametrize("said", [*SESSIONS, "SET NAMES utf8mb4 COLLATE utf8mb4_bin"])
def test_a_session_that_jobs_run_in_is_as_before(
    mysql: MysqlServer, database: str, shop: Mutirao, opened: Open, said: str
) -> None:
    """It has our settings meanwhile, and then each of those that it had, and its character sets."""
    _empty(mysql, database)
    conn = opened(_pymysql)
    _say(conn, said)
    before = _settings(conn)
    shop.tasks["plain"].using(conn=conn).enqueue(note=OTHER)
    assert drain(shop, conn=conn) == {"succeeded": 1}
    assert _settings(conn) == before
    conn.rollback()


@pytest.mark.parametrize("characters", ["utf16", "utf32"])
def test_literals_of_wide_characters(
    mysql: MysqlServer, database: str, shop: Mutirao, opened: Open, is_mariadb: bool,
    characters: str,
) -> None:  # fmt: skip
    """Texts arrive; what MariaDB refuses there is refused with what to do. Nothing is left out."""
    _empty(mysql, database)
    conn = opened(_pymysql)
    _say(conn, f"SET SESSION collation_connection = {characters}_general_ci")
    plain = shop.tasks["plain"]
    plain.using(conn=conn, tenant=OTHER, group=OTHER, tags=[OTHER], metadata={"é": OTHER}).enqueue()
    conn.commit()
    if is_mariadb:
        graph = chain(step(plain.job()), step(plain.job()))
        with pytest.raises(pymysql.err.OperationalError, match="4042") as raised:
            shop.enqueue_graph(graph, conn=conn)
        assert "Use SET NAMES utf8mb4" in raised.value.__notes__[0]
    with mysql.connect(database, charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tenant, `group`, tags, metadata FROM mutirao_job")
        [(tenant, whose, tags, metadata)] = cursor.fetchall()
    assert (tenant, whose, json.loads(tags), json.loads(metadata)) == (
        OTHER, OTHER, [OTHER], {"é": OTHER}
    )  # fmt: skip


SETTINGS = (
    *("time_zone", "group_concat_max_len", "div_precision_increment", "character_set_connection"),
    *("sql_mode", "sql_select_limit", "sql_safe_updates", "sql_auto_is_null", "completion_type"),
    *("character_set_client", "collation_connection", "character_set_results"),
    *("foreign_key_checks", "unique_checks", "sql_big_selects"),
)


def _settings(conn: Any) -> list[object]:
    if hasattr(conn, "exec_driver_sql"):
        conn = conn.connection.driver_connection
    with conn.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(f'@@{name}' for name in SETTINGS)} LIMIT 1")
        return [*cursor.fetchall()]


CHARSETS = ("latin1", "utf8", "ascii", "koi8r", "gbk")


@pytest.mark.parametrize(
    ("way", "charset"),
    [*((_pymysql, each) for each in CHARSETS), (_mysqldb, "latin1"), (_sqlalchemy, "latin1")],
)
def test_drivers_of_other_texts(
    mysql: MysqlServer, database: str, shop: Mutirao, opened: Open, usual: Rows,
    way: Open, charset: str,
) -> None:  # fmt: skip
    """Whatever a driver makes of texts, and a server of those."""
    _empty(mysql, database)
    conn = opened(way, charset=charset)
    work(shop, conn)
    conn.commit()
    assert rows(mysql, database) == usual


@pytest.mark.parametrize("charset", ["latin1", "utf8mb4"])
async def test_coroutines(mysql: MysqlServer, database: str, shop: Mutirao, charset: str) -> None:
    """The same through aiomysql, which leaves the names of character sets to the handshake."""
    _empty(mysql, database)
    url = make_url(mysql.url(database))
    values = {"host": url.host, "port": url.port, "user": url.username}
    values |= {"password": url.password or "", "db": database}
    conn = await aiomysql.connect(**values, charset=charset)
    async with conn.cursor() as cursor:
        await cursor.execute("SET SESSION sql_select_limit = 1, character_set_connection = latin1")
    plain, tell = shop.tasks["plain"], shop.tasks["tell"]
    await plain.using(conn=conn, key=OTHER, on_conflict="replace").aenqueue(note=OTHER)
    for kind in ("new", "edit"):
        await tell.using(conn=conn, key=OTHER).aenqueue(kind, OTHER)
    await conn.commit()
    conn.close()
    found = [(job.task, job.key, job.args) for job in shop.jobs()]
    assert ("plain", OTHER, {"note": OTHER}) in found
    assert ("tell", OTHER, {"kind": "edit", "what": OTHER * 2}) in found


def test_what_does_not_fit(mysql: MysqlServer, database: str, opened: Open) -> None:
    """Texts that are not ASCII take twice their bytes there: refused where that is too much."""
    app = Mutirao(mysql.url(database), max_payload=1 << 30)

    @app.task
    def plain(note: str) -> None: ...

    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        [[most]] = cursor.fetchall()
    conn, note = opened(_pymysql), "é" + "x" * (most * 3 // 4)
    with pytest.raises(StoreRefused, match=r"max_allowed_packet.*Nothing was enqueued"):
        plain.using(conn=conn).enqueue(note=note)
    plain.using(conn=conn).enqueue(note=note[1:])
    conn.rollback()
    plain.enqueue(note=note)
    app.close()
