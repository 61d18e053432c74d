"""Each question of docs/bi.md, on each database, of a small past whose answers are known."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine

from benchmarks.bi import PAGE, blocks, statements
from mutirao.sql.schema import tables

HOUR_AGO = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
PARTNER, LATER = 20, 103  # the first are webhooks; the last two come of two redrives
Row = dict[str, Any]


def at(seconds: float) -> datetime:
    """Return a moment of the past."""
    return HOUR_AGO + timedelta(seconds=seconds)


def _jobs() -> Iterator[Row]:
    """A hundred receipts, of which every other is acme's; a report that died; two of redrives."""
    for id in range(1, 105):
        redriven = id >= LATER
        yield {
            "id": id,
            "task": "send_receipt" if id <= 100 else "monthly_report",
            "queue": "mail" if id <= 100 else "reports",
            "tenant": "acme" if id % 2 and id <= 100 else None,
            "args": {}, "priority": 0,
            "run_at": at(2_000 if redriven else 0),
            "enqueued_at": at(2_000 + id if redriven else 0),
            "redrive_of": 102 if redriven else None,
        }  # fmt: skip


def _attempts() -> Iterator[Row]:
    """The nth receipt waits for n seconds and takes one; of the others most die."""
    for id in range(1, 101):
        yield _ended(id, 1, 1, "succeeded", id)
    yield _ended(101, 1, 1, "cancelled", 5)
    yield _ended(102, 1, 1, "retried", 5, "ValueError: no data")
    yield _ended(102, 2, 2, "dead", 10, "ValueError: no data")
    yield _ended(103, 1, 1, "succeeded", 2_200)
    yield _ended(104, 1, 1, "dead", 2_200, "KeyError: 'x'")


def _ended(
    job: int, run: int, attempt: int, outcome: str, began: float, error: str | None = None
) -> Row:
    return {
        "job": job, "run": run, "attempt": attempt, "outcome": outcome, "worker": 1,
        "started_at": at(began), "finished_at": at(began + 1),
        "error": error, "error_type": error.partition(":")[0] if error else None,
    }  # fmt: skip


def _webhooks() -> Iterator[Row]:
    """The first jobs as deliveries, the nth in n ms; those of the report fail."""
    for job in range(1, PARTNER + 1):
        yield _sent(job, 1, 200, job)
    yield _sent(102, 1, None, 500)
    yield _sent(102, 2, 500, 30)


def _sent(job: int, run: int, status: int | None, milliseconds: float) -> Row:
    return {
        "job": job, "run": run, "endpoint": "erp", "host": "erp.example", "status": status,
        "milliseconds": milliseconds, "body": "", "truncated": False, "request_headers": "{}",
        "finished_at": at(200),
    }  # fmt: skip


def _actions() -> Iterator[Row]:
    """Two of ana's, one of which made both jobs, and one of bo's; and a cancellation."""
    for who, action, matched, done, began in (
        ("ana", "redrive", 5, 2, 2_050),
        ("ana", "redrive", 1, 1, 3_000),
        ("bo", "redrive", 4, 4, 3_100),
        ("bo", "cancel", 9, 9, 3_200),
    ):
        yield {
            "who": who, "action": action, "matched": matched, "done": done, "filter": "state:dead",
            "why": "{}", "state": "done", "stop": False,
            "started_at": at(began), "seen_at": at(began + 99), "finished_at": at(began + 99),
        }  # fmt: skip


@pytest.fixture
def past(migrated_url: str) -> Iterator[Connection]:
    """A connection to a database with all of that."""
    engine = create_engine(migrated_url)
    with engine.begin() as conn:
        for table, rows in (
            (tables.job, _jobs()), (tables.attempt, _attempts()),
            (tables.webhook_attempt, _webhooks()), (tables.action, _actions()),
        ):  # fmt: skip
            conn.execute(table.insert(), [*rows])
        conn.execute(tables.live.delete())  # which a trigger of SQLite has made
        if conn.dialect.name in ("mysql", "mariadb"):
            conn.exec_driver_sql("UPDATE mutirao_job SET unplaced = NULL")
    with engine.connect() as conn:
        yield conn
    engine.dispose()


def test_each_question_is_answered(past: Connection) -> None:
    """What the page's statements return, to the number."""
    found = {name: [*_answer(past, sql)] for name, sql in blocks(past.dialect.name).items()}
    assert found.keys() == KNOWN.keys()
    assert {name: _plain(rows, KNOWN[name]) for name, rows in found.items()} == KNOWN


KNOWN: dict[str, list[Row]] = {
    "How long they wait": [
        {"queue": "reports", "jobs": 2, "p50": 96, "p95": 97, "p99": 97},
        {"queue": "mail", "jobs": 100, "p50": 50, "p95": 95, "p99": 99},
    ],
    "Why they fail": [
        {"task": "monthly_report", "error_type": "ValueError", "jobs": 1, "attempts": 2},
        {"task": "monthly_report", "error_type": "KeyError", "jobs": 1, "attempts": 1},
    ],
    "Time in queue by tenant": [
        {"tenant": "", "jobs": 52, "mean": pytest.approx(52.75, abs=0.06), "longest": 100},
        {"tenant": "acme", "jobs": 50, "mean": 50, "longest": 99},
    ],
    "Promises that were missed": [
        {"task": "send_receipt", "promised": 60, "jobs": 100, "late": 41, "longest": 101},
        {"task": "monthly_report", "promised": 3600, "jobs": 3, "late": 0, "longest": 98},
    ],
    "Deliveries by partner": [
        {
            "endpoint": "erp", "attempts": 22, "delivered": 20, "given_up": 1, "unanswered": 1,
            "p95_milliseconds": 30,
        },
    ],
    "What each person's redrive did": [
        {"who": "bo", "redrives": 1, "looked_at": 4, "redriven": 4, "passed_over": 0},
        {"who": "ana", "redrives": 2, "looked_at": 6, "redriven": 3, "passed_over": 3},
    ],
    "What each person's redrive did, further": [
        {"who": "ana", "state": "dead", "jobs": 1},
        {"who": "ana", "state": "succeeded", "jobs": 1},
    ],
    "Reports in SQL": [{"succeeded": 101, "tried_again": 1, "dead": 2}],
    "How long they run": [{"attempts": 101, "p95_duration": 1}],
}  # fmt: skip


def _answer(conn: Connection, sql: str) -> Iterator[Row]:
    *before, last = statements(sql)
    for each in before:
        conn.exec_driver_sql(each)
    for row in conn.exec_driver_sql(last).mappings():
        yield dict(row)


def _plain(rows: list[Row], known: list[Row]) -> list[Row]:
    """Return the columns that are known; hours, which may be two, added up."""
    if "hour" in rows[0]:
        summed = {name: sum(float(row[name]) for row in rows) for name in known[0]}
        return [{**summed, **{n: 1 for n in summed if n == "p95_duration"}}]
    return [
        {name: value if isinstance(value, str) else round(float(value), 1) for name, value in
         ((name, row[name]) for name in wanted)}
        for row, wanted in zip(rows, known, strict=True)
    ]  # fmt: skip


def test_no_question_is_left_out() -> None:
    """Each heading but the last has a statement for each kind of database."""
    asked = {kind: blocks(kind) for kind in ("postgresql", "mysql", "sqlite")}
    assert asked["postgresql"].keys() == asked["mysql"].keys() == asked["sqlite"].keys()
    headings = [line for line in PAGE.read_text().splitlines() if line.startswith("#")]
    assert len(headings) == len(KNOWN)  # one has two statements, and the last has none
