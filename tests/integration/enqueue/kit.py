"""What the tests of enqueueing share: jobs, which kinds of holders, and what others can see."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Self, cast

import pytest
from sqlalchemy import Row, create_engine, select, text

from mutirao.model.jobs.job import NewJob
from mutirao.sql.schema.tables import job, live
from tests.integration.enqueue.holders import (
    AUTOCOMMITTING,
    FEW,
    OF_EACH_DRIVER,
    TRANSACTIONAL,
    Holder,
)
from tests.support.mariadb import empty

# Jobs to a chunk, and to a single statement, where a test does not need the real numbers.
CHUNK, AT_ONCE = 50, 10
SEVERAL = 7  # jobs: one statement on PostgreSQL
MANY = 123  # jobs: COPY on PostgreSQL; three chunks everywhere


class Interrupted(Exception):
    """What a caller's own iterable raises."""


def kinds(*chosen: type[Holder]) -> pytest.MarkDecorator:
    """Run a test with a holder of each of these kinds."""
    return pytest.mark.parametrize("kind", chosen, ids=lambda kind: kind.__name__)


def numbered(count: int, failing_at: int | None = None) -> Iterator[NewJob]:
    """Yield jobs that know their place; raise in the place of one of them."""
    for n in range(count):
        if n == failing_at:
            raise Interrupted
        yield NewJob(task="shop.send", args=f'{{"n": {n}}}')


def varied(
    chosen: Iterable[type[Holder]],
    name: str,
    usual: object,
    *others: object,
    few: Collection[type[Holder]] = FEW,
) -> pytest.MarkDecorator:
    """Run a test with a holder of each of these kinds and `usual`, with a few also with `others`.

    What a size or a mode decides is decided by the statements, not by the kind of a connection.
    """
    cases = [(kind, usual) for kind in chosen]
    cases += [(kind, other) for kind in chosen if kind in few for other in others]
    ids = [f"{kind.__name__}-{value}" for kind, value in cases]
    return pytest.mark.parametrize(("kind", name), cases, ids=ids)


transactional = kinds(*TRANSACTIONAL)
each_driver = kinds(*OF_EACH_DRIVER)
autocommitting = kinds(*AUTOCOMMITTING)


class Observer:
    """A program of its own on the database at `url`, never in a transaction for long."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = create_engine(url, isolation_level="AUTOCOMMIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dispose()

    def open_shop(self) -> None:
        """Create the program's own table."""
        with self._engine.connect() as conn:
            conn.execute(text("CREATE TABLE shop_order (id integer PRIMARY KEY)"))

    def clear(self) -> None:
        """Forget everything that an earlier test has written on a server."""
        with self._engine.connect() as conn:
            if conn.dialect.name == "mysql":
                empty(cast(Any, conn.connection.driver_connection))
                conn.execute(text("DELETE FROM shop_order"))
                return
            conn.execute(
                text(
                    "TRUNCATE mutirao_job, mutirao_live, mutirao_key, mutirao_supersede_last,"
                    " mutirao_supersede_wait, mutirao_worker, shop_order"
                )
            )

    def kill(self, pid: int) -> None:
        """End a session of PostgreSQL, and wait until it has ended."""
        with self._engine.connect() as conn:
            ended = conn.scalar(text("SELECT pg_terminate_backend(:pid, 30000)"), {"pid": pid})
        assert ended

    def jobs(self) -> list[Row[Any]]:
        """Return all jobs by id, with `live` (a copy of the id) and `due` of the live table."""
        asked = select(job, live.c.id.label("live"), live.c.run_at.label("due"))
        with self._engine.connect() as conn:
            joined = asked.join_from(job, live, job.c.id == live.c.id, isouter=True)
            return list(conn.execute(joined.order_by(job.c.id)))

    def ids(self) -> list[int]:
        """Return the ids of all jobs; each of them must be live, and nothing else."""
        with self._engine.connect() as conn:
            asked = list(conn.scalars(select(job.c.id).order_by(job.c.id)))
            assert list(conn.scalars(select(live.c.id).order_by(live.c.id))) == asked
        return asked

    def places(self) -> dict[int, int]:
        """Return the place of each job that `numbered` made, by its id."""
        return {row.id: row.args["n"] for row in self.jobs()}

    def orders(self) -> list[int]:
        """Return the ids of the orders in the program's own table."""
        with self._engine.connect() as conn:
            return list(conn.scalars(text("SELECT id FROM shop_order ORDER BY id")))

    def texts(self) -> list[str]:
        """Return the arguments of all jobs as they are stored, by id."""
        with self._engine.connect() as conn:
            kind = "char" if conn.dialect.name == "mysql" else "text"
            cast = text(f"SELECT CAST(args AS {kind}) FROM mutirao_job ORDER BY id")  # noqa: S608
            return list(conn.scalars(cast))


AWKWARD = [
    "plain",
    "it's \"quoted\" ''twice''",
    "back\\slash \\n \\t \\N \\. \\\\",
    "tab\there\nnew\r\nline",
    "fila-é-日本-🎈-\u2028",
    "{} {0} %s %(a)s %% % :name ::text $1 $$ ? ?? @x",
    "'; DROP TABLE mutirao_job; --",
    "\\N",
    " ",
]


def awkward(value: str) -> NewJob:
    """Return a job that has a text wherever it can have one."""
    return NewJob(
        task=value,
        args=json.dumps({value: [value, {"deep": value}]}, ensure_ascii=False),
        queue=value,
        key=value,
        tags=(value, "b"),
        metadata={value: value},
        traceparent=value,
    )
