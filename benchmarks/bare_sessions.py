"""Loops of bare SQLAlchemy sessions that commit what a job in `job.transaction()` commits.

What users of sessions would have without jobs: for each commit a session, over an engine with as
many connections as there are handlers. It inserts the effect, and exchanges the job's live row for
its attempt: BEGIN, two statements (on PostgreSQL those of a worker; on others three) and COMMIT.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import URL, TextClause, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from benchmarks import effects

_ASYNCHRONOUS = {"pysqlite": "sqlite+aiosqlite", "pymysql": "mysql+aiomysql"}
_PLAIN = {"aiosqlite": "sqlite+pysqlite", "aiomysql": "mysql+pymysql"}
_EFFECT = text(effects.INSERT)


def in_threads(url: URL, ids: Sequence[int], sessions: int) -> None:
    """Commit once for each id, in as many threads as there are sessions at once."""
    engine = create_engine(_of(url, _PLAIN), pool_size=sessions, **_options(url))
    exchange = _exchange(url)

    def commit(share: Sequence[int]) -> None:
        for id in share:
            with Session(engine) as session:
                session.execute(_EFFECT)
                for statement in exchange:
                    session.execute(statement, {"id": id})
                session.commit()

    with ThreadPoolExecutor(sessions) as pool:
        list(pool.map(commit, [ids[n::sessions] for n in range(sessions)]))
    engine.dispose()


def in_coroutines(url: URL, ids: Sequence[int], sessions: int) -> None:
    """Commit once for each id, in as many coroutines as there are sessions at once."""
    asyncio.run(_in_coroutines(url, ids, sessions))


async def _in_coroutines(url: URL, ids: Sequence[int], sessions: int) -> None:
    engine = create_async_engine(_of(url, _ASYNCHRONOUS), pool_size=sessions, **_options(url))
    exchange = _exchange(url)

    async def commit(share: Sequence[int]) -> None:
        for id in share:
            async with AsyncSession(engine) as session:
                await session.execute(_EFFECT)
                for statement in exchange:
                    await session.execute(statement, {"id": id})
                await session.commit()

    await asyncio.gather(*(commit(ids[n::sessions]) for n in range(sessions)))
    await engine.dispose()


def _of(url: URL, drivers: dict[str, str]) -> URL:
    return url.set(drivername=drivers.get(url.get_driver_name(), url.drivername))


def _options(url: URL) -> dict[str, dict[str, float]]:
    return {"connect_args": {"timeout": 60.0}} if url.get_backend_name() == "sqlite" else {}


def _exchange(url: URL) -> list[TextClause]:
    if url.get_backend_name() == "postgresql":
        return [text(effects.COMPLETE.format(":id"))]
    return [text(each.replace("?", ":id")) for each in (effects.ATTEMPT, effects.GONE)]
