"""The documented views: their columns, and what they say of jobs, on every database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, inspect, make_url, text

from mutirao.model.jobs.job import KeptResult, NewJob, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome, Settlement
from mutirao.model.jobs.records import JobFilter, Progress
from mutirao.sql.schema import views
from tests.support.history import FAILED, claim, make_history, opened

PAGE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text()
DOCUMENT = PAGE[: PAGE.index("## Removing")]  # which the tests of migrations do
VIEWS = [
    "mutirao_jobs",
    "mutirao_attempts",
    "mutirao_queues",
    "mutirao_errors",
    "mutirao_throughput",
    "mutirao_workers",
    "mutirao_schedules",
    "mutirao_graphs",
    "mutirao_limits",
    "mutirao_publications",
    "mutirao_deliveries",
    "mutirao_subscriptions",
    "mutirao_endpoints",
    "mutirao_webhook_attempts",
    "mutirao_audit",
]


def documented_columns(view: str) -> list[str]:
    """Return the names in the first table below the heading of a view, in order."""
    section = DOCUMENT.split(f"\n## {view}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


def documented_sql(dialect: str = "") -> list[str]:
    """Return the statements that the document shows for a dialect; without, for all of them."""
    return re.findall(rf"^```sql {dialect}\n(.*?)^```" if dialect else r"^```sql\n(.*?)^```",
                      DOCUMENT, flags=re.MULTILINE | re.DOTALL)  # fmt: skip


@pytest.fixture
def connection(migrated_url: str) -> Iterator[Connection]:
    """A connection to a migrated database, as a program that knows nothing of Mutirão has one."""
    engine = create_engine(migrated_url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


_OTHERS = re.compile(r"FROM mutirao_jobs|expir")  # they do not make a job like any other


def rows(connection: Connection, statement: str) -> list[dict[str, Any]]:
    """Return what a statement finds now."""
    connection.rollback()
    return [dict(row) for row in connection.execute(text(statement)).mappings()]


@pytest.mark.parametrize("view", VIEWS)
def test_the_columns_are_the_documented_ones(connection: Connection, view: str) -> None:
    """The database, the document and what the code reads name the same columns, in one order."""
    found = [column["name"] for column in inspect(connection).get_columns(view)]
    assert found == documented_columns(view)
    assert found == views.metadata.tables[view].columns.keys()


def test_every_view_is_documented(connection: Connection) -> None:
    """There is no view that people may not rely on."""
    assert sorted(inspect(connection).get_view_names()) == sorted(VIEWS)


def test_the_documented_queries_run(connection: Connection) -> None:
    """Each example can be pasted; on MySQL with the backticks that the document asks for."""
    quote = "`key`" if connection.dialect.name == "mysql" else "key"
    examples = [re.sub(r"\bkey\b", quote, sql) for sql in documented_sql()]
    assert len(examples) == len(VIEWS)
    for example in examples:
        assert rows(connection, example) == []


def test_plain_sql_enqueues(connection: Connection) -> None:
    """The documented statements make jobs like any other, which end with the transaction."""
    dialect = make_url(connection.engine.url).get_backend_name()
    shown = [sql for sql in documented_sql(dialect) if not _OTHERS.search(sql)]
    statements = [text(sql.replace(":", r"\:")) for sql in shown]
    with_key = {"postgresql": 2, "sqlite": 0, "mysql": 0}[dialect]
    assert len(statements) == 2 + with_key

    for statement in statements:
        connection.execute(statement)
    connection.rollback()
    assert rows(connection, "SELECT * FROM mutirao_jobs") == []

    for statement in statements:
        connection.execute(statement)
    connection.commit()
    short, full, *keyed = rows(connection, "SELECT * FROM mutirao_jobs ORDER BY id")
    assert (short["task"], short["queue"], short["state"]) == ("send_receipt", "default", "ready")
    assert (full["queue"], full["priority"], full["state"]) == ("mail", 10, "scheduled")
    assert (full["max_attempts"], full["timeout"]) == (5, 30)
    assert _json(full["args"]) == {"order_id": 7}
    assert _json(full["tags"]) == ["receipt"]
    assert [row["key"] for row in keyed] == ["document-7"] * with_key


def test_plain_sql_enqueues_what_expires(connection: Connection) -> None:
    """The documented statements write the moment where workers and where views look for it."""
    dialect = make_url(connection.engine.url).get_backend_name()
    for sql in documented_sql(dialect):
        if "expir" in sql:
            connection.execute(text(sql.replace(":", r"\:")))
    connection.commit()
    (job,) = rows(connection, "SELECT * FROM mutirao_jobs")
    assert (job["task"], job["state"]) == ("send_code", "ready")
    assert job["expires_at"] is not None
    assert set(_json(job["metadata"])) == {"@expires"}


async def test_attempts(migrated_url: str, connection: Connection) -> None:
    """Each is shown once, with its job's facts, and its error, its note or its result."""
    async with opened(migrated_url) as store:
        made = await make_history(store)
        kept, expired, seen = await store.aenqueue([NewJob(task="t", queue="q")] * 3)
        claims = {job.id: job for job in await claim(store, made.worker, 9)}
        results = {kept: KeptResult('{"n": 1}'), expired: KeptResult("1", -60.0), seen: None}
        await store.report(
            [Progress(seen, 1, 1.0, None, "all sent"), Progress(kept, 0, 1.0, None, "long ago")]
        )
        done = [
            claims[id]._replace(outcome=Outcome(OutcomeKind.SUCCEEDED, result=result), linked=True)
            for id, result in results.items()
        ]
        await store.settle(made.worker, done)
    found = {row["job"]: row for row in rows(connection, "SELECT * FROM mutirao_attempts")}
    assert found.keys() == {
        made.succeeded, made.dead, made.retried, made.cancelled, kept, expired, seen,
    }  # fmt: skip
    dead = found[made.dead]
    assert (dead["run"], dead["attempt"], dead["worker"]) == (1, 1, made.worker)
    assert (dead["task"], dead["queue"], dead["outcome"]) == ("send", "mail", "dead")
    assert (dead["error_type"], dead["error"]) == ("ValueError", FAILED)
    assert dead["message"] == "ValueError: no such order"
    assert dead["duration"] == pytest.approx(1.0)
    assert found[made.retried]["outcome"] == "retried"
    assert found[made.succeeded]["message"] is None
    assert {id: _json(row["result"]) for id, row in found.items() if row["result"]} == {
        kept: {"n": 1}
    }
    assert found[seen]["message"] == "all sent"
    assert found[kept]["message"] is None


async def test_fingerprints(migrated_url: str, connection: Connection) -> None:
    """Equal jobs of a findable task have the same."""
    async with opened(migrated_url) as store:
        await store.aenqueue([NewJob(task="t", fingerprint=f) for f in ("f", None)])
    found = rows(connection, "SELECT fingerprint FROM mutirao_jobs ORDER BY id")
    assert [row["fingerprint"] for row in found] == ["f", None]


async def test_jobs_in_every_state(migrated_url: str, connection: Connection) -> None:
    """Each job is shown once, with its state and its last attempt."""
    async with opened(migrated_url) as store:
        made = await make_history(store)
    found = {row["id"]: row for row in rows(connection, "SELECT * FROM mutirao_jobs")}

    assert {id: row["state"] for id, row in found.items()} == {
        made.succeeded: "succeeded",
        made.dead: "dead",
        made.retried: "scheduled",
        made.running: "running",
        made.cancelled: "cancelled",
        made.scheduled: "scheduled",
        made.ready: "ready",
    }
    assert found[made.succeeded]["duration"] == pytest.approx(2.0)
    assert found[made.running]["duration"] >= 0
    assert found[made.dead]["error"] == found[made.retried]["error"] == FAILED
    assert found[made.succeeded]["error"] is None
    assert {id: row["worker"] for id, row in found.items() if row["worker"] is not None} == (
        dict.fromkeys((made.succeeded, made.dead, made.running), made.worker)
    )
    waiting = (made.retried, made.scheduled, made.ready)
    assert {id for id, row in found.items() if row["started_at"] is None} == set(waiting)
    assert {id for id, row in found.items() if row["finished_at"] is None} == {
        *waiting,
        made.running,
    }


async def test_an_error_is_shown_until_the_job_succeeds(
    migrated_url: str, connection: Connection
) -> None:
    """A live job shows its last error even if it was only given back since; a done one its own."""
    async with opened(migrated_url) as store:
        worker = (await make_history(store)).worker
        await store.cancel(JobFilter(limit=None))
        (id,) = await store.aenqueue([NewJob(task="send")])
        failed = Outcome(OutcomeKind.RETRIED, error_type="KeyError", error="k")
        for outcome, error in [
            (failed, "k"),
            (Outcome(OutcomeKind.RELEASED), "k"),
            (SUCCEEDED, None),
        ]:
            (settlement,) = await claim(store, worker, 1)
            await store.settle(worker, [settlement._replace(outcome=outcome)])
            (row,) = rows(connection, f"SELECT error FROM mutirao_jobs WHERE id = {id}")  # noqa: S608
            assert row["error"] == error


def test_moments_on_sqlite_are_iso_text(migrated_sqlite_url: str) -> None:
    """What SQLite shows is text that every language parses, in UTC, to the microsecond."""
    engine = create_engine(migrated_sqlite_url)
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO mutirao_job (task, run_at) VALUES ('t', 1700000000000042)")
        )
        assert connection.scalar(text("SELECT run_at FROM mutirao_jobs")) == (
            "2023-11-14T22:13:20.000042Z"
        )
    engine.dispose()


async def test_queues(migrated_url: str, connection: Connection) -> None:
    """Each queue and state is counted, with the age of its oldest."""
    async with opened(migrated_url) as store:
        await make_history(store)
        await store.aenqueue([NewJob(task="t", queue="other")] * 2)
    found = rows(connection, "SELECT * FROM mutirao_queues")
    assert {(row["queue"], row["state"]): row["jobs"] for row in found} == {
        ("mail", "succeeded"): 1,
        ("mail", "dead"): 1,
        ("mail", "scheduled"): 2,
        ("mail", "running"): 1,
        ("mail", "cancelled"): 1,
        ("mail", "ready"): 1,
        ("other", "ready"): 2,
    }
    ages = {row["state"]: row["oldest_age"] for row in found if row["queue"] == "mail"}
    assert 2.0 <= ages["dead"] < 60
    assert all(0 <= age < 60 for age in ages.values())


async def test_errors(migrated_url: str, connection: Connection) -> None:
    """Failures are grouped by task, type and the first line of the text."""
    async with opened(migrated_url) as store:
        await make_history(store)
    (row,) = rows(connection, "SELECT * FROM mutirao_errors")
    assert (row["task"], row["error_type"]) == ("send", "ValueError")
    assert row["message"] == "ValueError: no such order"
    assert (row["jobs"], row["attempts"]) == (2, 2)
    assert row["first_at"] < row["last_at"]


async def test_throughput(migrated_url: str, connection: Connection) -> None:
    """Attempts of an hour are counted by outcome; 95 % of them are within the p95 duration."""
    async with opened(migrated_url) as store:
        worker = (await make_history(store)).worker
        await store.cancel(JobFilter(limit=None))
        await store.aenqueue([NewJob(task="timed")] * 40)
        claims = await claim(store, worker, 40)
        # They took 1 to 40 seconds, and ended at the same moment.
        await store.settle(
            worker,
            [Settlement(s.id, s.run, SUCCEEDED, float(n), 0.0) for n, s in enumerate(claims, 1)],
        )
    (row,) = rows(connection, "SELECT * FROM mutirao_throughput WHERE task = 'timed'")
    assert (row["queue"], row["outcome"], row["attempts"]) == ("default", "succeeded", 40)
    assert row["mean_duration"] == pytest.approx(20.5)
    assert row["p95_duration"] == pytest.approx(38.0)
    assert re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:00:00", str(row["hour"]))
    sums = rows(connection, "SELECT outcome, sum(attempts) AS n FROM mutirao_throughput GROUP BY 1")
    assert {row["outcome"]: int(row["n"]) for row in sums} == {
        "succeeded": 41,
        "dead": 1,
        "retried": 1,
        "cancelled": 4,
    }


async def test_workers(migrated_url: str, connection: Connection) -> None:
    """A worker shows what it holds; one that holds nothing, an empty list."""
    async with opened(migrated_url) as store:
        made = await make_history(store)
    (row,) = rows(connection, "SELECT * FROM mutirao_workers")
    assert (row["id"], row["name"], row["running"]) == (made.worker, "w", 1)
    assert _json(row["jobs"]) == [made.running]
    assert _json(row["queues"]) == ["mail"]
    assert bool(row["alive"])
    connection.execute(text("DELETE FROM mutirao_live"))
    connection.commit()
    (row,) = rows(connection, "SELECT running, jobs FROM mutirao_workers")
    assert (row["running"], _json(row["jobs"])) == (0, [])


def _json(value: Any) -> Any:
    """Return the JSON that PostgreSQL's driver has decoded and SQLite's has not."""
    return json.loads(value) if isinstance(value, str) else value
