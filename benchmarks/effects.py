"""The table that handlers of `transactions` write to, and the raw loops that commit the same.

A raw loop claims nothing: its jobs are known, and claimed already. Each commit of it is what a job
in its own transaction cannot do without: BEGIN, the INSERT of the effect, the job's live row
exchanged for its attempt if it has that run, COMMIT; prepared, by the driver alone, on connections
that are open. On PostgreSQL that exchange is the statement that a worker says, too.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from sqlalchemy import URL, Connection, make_url, text

TABLE = "mutirao_bench_effect"
INSERT = "INSERT INTO mutirao_bench_effect VALUES (1)"

RUN = 1  # of all jobs: each was claimed once
COMPLETE = f"SELECT mutirao_complete({{}}, {RUN}, 1000)"
ATTEMPT = f"""INSERT INTO mutirao_attempt
    (job, run, attempt, worker, outcome, started_at, finished_at)
SELECT id, run, attempt, worker, 'succeeded', run_at, run_at FROM mutirao_live
WHERE id = ? AND run = {RUN}"""  # noqa: S608
GONE = f"DELETE FROM mutirao_live WHERE id = ? AND run = {RUN}"  # noqa: S608

_LEVEL = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"

Loop = Callable[[URL, Sequence[Sequence[int]]], None]  # the ids for each connection


class Raw(NamedTuple):
    """A driver's raw loops: the kinds of handler that it can serve, and the loop for each."""

    plain: Loop | None
    coroutine: Loop | None


def make(conn: Connection) -> None:
    """Make the table, empty."""
    remove(conn)
    conn.execute(text(f"CREATE TABLE {TABLE} (id integer)"))


def remove(conn: Connection) -> None:
    """Remove it."""
    conn.execute(text(f"DROP TABLE IF EXISTS {TABLE}"))


def count(conn: Connection) -> int:
    """Return how many rows it has."""
    return int(conn.execute(text(f"SELECT count(*) FROM {TABLE}")).scalar_one())  # noqa: S608


def loop(url: str, kind: str) -> Callable[[Sequence[int], int], None] | None:
    """Return the driver's loop, which commits once for each id over so many connections.

    None: the driver has no connections of that kind, `plain` or `coroutine`.
    """
    parsed = make_url(url)
    known: Loop | None = getattr(_LOOPS[parsed.get_driver_name()], kind)
    if known is None:
        return None
    return lambda ids, connections: known(parsed, [ids[n::connections] for n in range(connections)])


def _psycopg(url: URL, shares: Sequence[Sequence[int]]) -> None:
    import psycopg

    def commit(conn: Any, ids: Sequence[int]) -> None:
        for id in ids:
            conn.execute(INSERT, prepare=True)
            conn.execute(COMPLETE.format("%s"), (id,), prepare=True)
            conn.commit()

    _in_threads([psycopg.connect(_plain(url)) for _ in shares], shares, commit)


def _psycopg_async(url: URL, shares: Sequence[Sequence[int]]) -> None:
    import psycopg

    async def commit(conn: Any, ids: Sequence[int]) -> None:
        for id in ids:
            await conn.execute(INSERT, prepare=True)
            await conn.execute(COMPLETE.format("%s"), (id,), prepare=True)
            await conn.commit()

    async def run() -> None:
        conns = [await psycopg.AsyncConnection.connect(_plain(url)) for _ in shares]
        await _together(conns, shares, commit)

    asyncio.run(run())


def _asyncpg(url: URL, shares: Sequence[Sequence[int]]) -> None:
    import asyncpg

    async def commit(conn: Any, ids: Sequence[int]) -> None:
        for id in ids:
            async with conn.transaction():
                await conn.execute(INSERT)
                await conn.execute(COMPLETE.format("$1"), id)

    async def run() -> None:
        conns = [await asyncpg.connect(_plain(url)) for _ in shares]
        await _together(conns, shares, commit)

    asyncio.run(run())


def _sqlite(url: URL, shares: Sequence[Sequence[int]]) -> None:
    def commit(conn: sqlite3.Connection, ids: Sequence[int]) -> None:
        for id in ids:
            conn.execute("BEGIN IMMEDIATE")
            conn.execute(INSERT)
            conn.execute(ATTEMPT, (id,))
            conn.execute(GONE, (id,))
            conn.execute("COMMIT")

    def connected() -> sqlite3.Connection:
        return sqlite3.connect(
            url.database or "", timeout=60.0, isolation_level=None, check_same_thread=False
        )

    _in_threads([connected() for _ in shares], shares, commit)


def _aiosqlite(url: URL, shares: Sequence[Sequence[int]]) -> None:
    import aiosqlite

    async def commit(conn: Any, ids: Sequence[int]) -> None:
        for id in ids:
            await conn.execute("BEGIN IMMEDIATE")
            await conn.execute(INSERT)
            await conn.execute(ATTEMPT, (id,))
            await conn.execute(GONE, (id,))
            await conn.commit()

    async def run() -> None:
        path = url.database or ""
        conns = [await aiosqlite.connect(path, timeout=60.0, isolation_level=None) for _ in shares]
        await _together(conns, shares, commit)

    asyncio.run(run())


def connected_to_mysql(url: URL) -> Any:
    """Return a connection of PyMySQL in READ COMMITTED."""
    import pymysql

    return pymysql.connect(**_parts(url))


def _pymysql(url: URL, shares: Sequence[Sequence[int]]) -> None:
    def commit(conn: Any, ids: Sequence[int]) -> None:
        with conn.cursor() as cursor:
            for id in ids:
                cursor.execute(INSERT)
                cursor.execute(ATTEMPT.replace("?", "%s"), (id,))
                cursor.execute(GONE.replace("?", "%s"), (id,))
                conn.commit()

    _in_threads([connected_to_mysql(url) for _ in shares], shares, commit)


def _aiomysql(url: URL, shares: Sequence[Sequence[int]]) -> None:
    import aiomysql

    async def commit(conn: Any, ids: Sequence[int]) -> None:
        async with conn.cursor() as cursor:
            for id in ids:
                await cursor.execute(INSERT)
                await cursor.execute(ATTEMPT.replace("?", "%s"), (id,))
                await cursor.execute(GONE.replace("?", "%s"), (id,))
                await conn.commit()

    async def run() -> None:
        parts = _parts(url)
        parts["db"] = parts.pop("database")
        conns = [await aiomysql.connect(**parts) for _ in shares]
        await asyncio.gather(*(commit(*each) for each in zip(conns, shares, strict=True)))
        for conn in conns:
            conn.close()

    asyncio.run(run())


def _parts(url: URL) -> dict[str, Any]:
    return url.translate_connect_args(username="user") | {"init_command": _LEVEL}


def _in_threads(
    conns: Sequence[Any], shares: Sequence[Sequence[int]], commit: Callable[[Any, Any], None]
) -> None:
    with ThreadPoolExecutor(len(conns)) as pool:
        list(pool.map(commit, conns, shares))
    for conn in conns:
        conn.close()


async def _together(
    conns: Sequence[Any], shares: Sequence[Sequence[int]], commit: Callable[[Any, Any], Any]
) -> None:
    await asyncio.gather(*(commit(*each) for each in zip(conns, shares, strict=True)))
    for conn in conns:
        await conn.close()


def _plain(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


_LOOPS = {
    "psycopg": Raw(_psycopg, _psycopg_async),
    "asyncpg": Raw(None, _asyncpg),
    "pysqlite": Raw(_sqlite, _aiosqlite),
    "aiosqlite": Raw(_sqlite, _aiosqlite),
    "pymysql": Raw(_pymysql, _aiomysql),
    "aiomysql": Raw(_pymysql, _aiomysql),
}
