"""MySQL and MariaDB claim and settle in the order of an index: nothing is sorted or read whole.

What is sorted under a lock is locked as a whole, and other workers find nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor, DictCursor

from mutirao.model.jobs.job import NewJob, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Settlement
from mutirao.model.webhooks.breakers import BreakerTerms
from mutirao.model.webhooks.endpoints import FAIR_BY, USUAL_LIMIT, WEBHOOK_QUEUE, WEBHOOK_TASK
from mutirao.sql import migrations
from mutirao.sql.drivers.mysql import OwnMysqlDriver
from mutirao.sql.drivers.steps import Execute, Request, Rows
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.endpoints import attempt
from mutirao_conformance.kit import ended, newcomer
from tests.support.mariadb import MysqlServer

FINISHED, LIVE = 20_000, 6_000
FEW = 1_000  # rows that a statement may look at, whatever the tables hold
# Texts that are sent for a claim that parks, a settlement that calls, and both again.
TEXTS = [9, 5, 5, 5]
Asked = list[tuple[str, tuple[Any, ...]]]

_NUMBERS = "SELECT 0 AS d" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10))
_FILL = (
    "INSERT INTO mutirao_job (id, task, queue, priority, run_at, unplaced)"
    " SELECT i, concat('task ', i MOD 20), elt(1 + i MOD 4, 'default', 'default', 'mail', 'fair'),"
    " elt(1 + i MOD 4, 0, 0, 10, 0), 1000000 * i, NULL FROM numbers",
    "INSERT INTO mutirao_live (id, queue, priority, run_at, fairness)"
    " SELECT id, if(queue = 'fair', concat(char(31 USING utf8mb4), queue), queue), priority,"
    " if(id MOD 8 = 0, 4000000000000000, run_at), if(queue = 'fair', concat('=', id MOD 7), '')"
    " FROM mutirao_job WHERE id > {finished}",
    "INSERT INTO mutirao_attempt (job, run, attempt, outcome, started_at, finished_at)"
    " SELECT i, 1, 1, if(i MOD 100, 'succeeded', 'dead'), i, i FROM numbers WHERE i <= {finished}",
    "DROP TABLE numbers",
    "ANALYZE TABLE mutirao_job, mutirao_live, mutirao_attempt",
)


def fill(conn: pymysql.Connection[Cursor], finished: int, live: int) -> None:
    """Make a history of so many jobs, and so many that are live, in four lanes."""
    with conn.cursor() as cursor:
        cursor.execute("CREATE TABLE numbers (i int PRIMARY KEY)")
        cursor.execute(_numbers(finished + live))
        for statement in _FILL:
            cursor.execute(statement.format(finished=finished))


def _numbers(most: int) -> str:
    """Return the INSERT of the numbers up to `most`, from as many digits as that has."""
    names = "abcdefg"[: len(str(most))]
    value = "1 + " + " + ".join(f"{10**n} * {name}.d" for n, name in enumerate(names))
    digits = ", ".join(f"({_NUMBERS}) {name}" for name in names)
    return f"INSERT INTO numbers SELECT {value} FROM {digits} WHERE {value} <= {most}"  # noqa: S608


Handle = Callable[[Any, Request], Rows]


def _noting(handle: Handle, asked: Asked) -> Handle:
    """Return a `handle` that notes statements."""

    def note(self: Any, request: Request) -> Rows:
        if isinstance(request, Execute):
            for each in (request, *request.then):
                rows = each.params if each.many else (each.params,)
                asked.extend((self.native(each.sql), tuple(row)) for row in rows[:1])
        return handle(self, request)

    return note


@contextmanager
def listening() -> Iterator[Asked]:
    """Note each statement that goes through the driver."""
    asked: Asked = []
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(OwnMysqlDriver, "handle", _noting(OwnMysqlDriver.handle, asked))
        yield asked


async def work(url: str) -> Asked:
    """Do what a worker does with jobs; return what it said."""
    store = SqlStore(url)
    # All goes through the adapter, as what stands alone does.
    worker = await store.register(newcomer(), expiry=600)
    with listening() as asked:
        heads = await store.lanes(None)
        rules, ids = store._sender.rules, list[int]()
        for _ in range(2):
            claims = await store._sender.runner.alone(
                rules.claim(worker, [head.lane for head in heads], 20, (), None)
            )
            ids += [claim.id for claim in claims]
            final = [ended(claim) for claim in claims[:10]]
            again = [ended(claim, OutcomeKind.RETRIED, after=5) for claim in claims[10:15]]
            await store._sender.runner.alone(rules.finish(final, None))
            await store._sender.runner.alone(rules.resume(worker, again, None))
            left = [(claim.id, claim.run) for claim in claims[15:]]
            await store._sender.runner.alone(rules.release(left))
        await store._sender.runner.alone(rules.is_anyone_gone(None))
    assert len(ids) == 40
    await store.close()
    return asked


def unfit(conn: pymysql.Connection[Cursor], asked: Asked) -> list[str]:
    """Return the statements that sort, or read more than a few rows, with their plans."""
    found = list[str]()
    with conn.cursor(DictCursor) as cursor:
        for sql, values in dict.fromkeys(asked):
            if not sql.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
                continue
            cursor.execute(f"EXPLAIN FORMAT=TRADITIONAL {sql}", values)
            plan = cursor.fetchall()
            if any(_is_unfit(step) for step in plan):
                found.append(f"{sql}\n{plan}")
    return found


def _is_unfit(step: dict[str, Any]) -> bool:
    if str(step["table"]).startswith("<union"):
        return False  # of two rows
    # What stands in order is read until enough was found, so its number of rows says nothing.
    whole = step["type"] == "ALL" and int(step["rows"] or 0) > FEW
    return whole or "filesort" in (step["Extra"] or "")


@pytest.fixture(scope="module", params=["mysql", "real_mysql"])
def server(request: pytest.FixtureRequest) -> MysqlServer:
    """A MariaDB, and a MySQL: their planners differ."""
    found: MysqlServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def filled(server: MysqlServer) -> str:
    """The name of a database with many jobs."""
    name = server.create_database()
    migrations.upgrade(server.url(name))
    with server.connect(name) as conn:
        fill(conn, FINISHED, LIVE)
    return name


async def test_nothing_is_sorted_or_read_whole(server: MysqlServer, filled: str) -> None:
    """By any statement with which jobs are claimed, settled and given back."""
    asked = await work(server.url(filled))
    said = " ".join(sql for sql, _ in asked)
    for part in (
        "mutirao_live_waiting",
        "mutirao_live_fairness",
        "SKIP LOCKED",
        "DELETE l",
        "UPDATE",
    ):
        assert part in said
    with server.connect(filled) as conn:
        assert unfit(conn, asked) == []


async def test_a_batch_of_deliveries_costs_no_more_statements(server: MysqlServer) -> None:
    """However many are parked behind a limit, claimed, completed with their attempts and called."""
    costs = {many: await deliver(server.url(server.create_database()), many) for many in (3, 30)}
    assert costs[3] == costs[30] == TEXTS


async def deliver(url: str, many: int) -> list[int]:
    """Let an endpoint have some at once of three times as many; return the queries of each step."""
    migrations.upgrade(url)
    store = SqlStore(url)
    await store.limits.put(replace(USUAL_LIMIT, most=many, start=None))
    values = json.dumps({"endpoint": "erp", "host": "example.org", "event": {}, "payload": {}})
    one = NewJob(task=WEBHOOK_TASK, queue=WEBHOOK_QUEUE, args=values, fair_by=FAIR_BY)
    await store.aenqueue([one] * 3 * many)
    worker, costs = await store.register(newcomer(), expiry=600), list[int]()
    for _ in range(2):
        lanes = [head.lane for head in await store.lanes([WEBHOOK_QUEUE])]
        with queries() as claiming:
            claims = await store.claim(worker, lanes, 4 * many)
        assert len(claims) == many
        with queries() as writing:
            done = [Settlement(claim.id, claim.run, SUCCEEDED) for claim in claims]
            recorded = await store.endpoints.record([*map(attempt, claims)], BreakerTerms(), done)
        assert len(recorded.settled) == many
        costs += [len(claiming), len(writing)]
    await store.close()
    return costs


@contextmanager
def queries() -> Iterator[list[object]]:
    """Note each text that is sent: the driver sends one for each row of a statement for many."""
    sent: list[object] = []
    send = pymysql.Connection._execute_command  # type: ignore[attr-defined]

    def note(self: Any, command: Any, sql: Any) -> None:
        sent.append(sql)
        send(self, command, sql)

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(pymysql.Connection, "_execute_command", note)
        yield sent


def test_a_sort_is_noticed(server: MysqlServer, filled: str) -> None:
    """The test above can fail."""
    sorting = "SELECT id FROM mutirao_live WHERE worker IS NULL AND queue = %s ORDER BY attempt"
    reading = "SELECT count(*) FROM mutirao_attempt WHERE attempt = 9"
    with server.connect(filled) as conn:
        assert len(unfit(conn, [(sorting, ("mail",)), (reading, ())])) == 2
