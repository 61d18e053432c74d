"""`bi`: how long each question of docs/bi.md takes on a long history, and what it reads."""

# ruff: noqa: S608 (what is put into statements stands in this file)

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from benchmarks import history
from benchmarks.figures import Figures
from benchmarks.ground import Ground, ground
from benchmarks.load import PREFIX

PAGE = Path(__file__).parents[1] / "docs" / "bi.md"
NEWEST = 10_000  # jobs that the page's questions look at
EVERY = 10  # one job in so many is a webhook
_KINDS = {"mariadb": "mysql"}
_PART = re.compile(r"^#+ (?P<title>.*?)$|^```sql (?P<kind>\w+)\n(?P<sql>.*?)^```$", re.M | re.S)
_OURS = (
    *("mutirao_webhook_attempt", "mutirao_action"),
    *("mutirao_hour", "mutirao_kept", "mutirao_error", "mutirao_rolled"),
)


class Asked(NamedTuple):
    """What a question took.

    Parameters:
        milliseconds: the median of all times that it was asked.
        rows: that it returned.
        read: that the database read for it; None where it does not tell.
    """

    milliseconds: float
    rows: int
    read: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What each question took, by its heading in the page.

    Parameters:
        finished: jobs in the history.
    """

    finished: int
    questions: Mapping[str, Asked]

    def figures(self) -> Figures:
        """Return them by name."""
        found: Figures = {"finished jobs": self.finished}
        for name, its in self.questions.items():
            found[f"{name}, ms"], found[f"{name}, rows read"] = its.milliseconds, its.read
        return found


def blocks(dialect: str) -> dict[str, str]:
    """Return the page's statements for a dialect, by the heading that they stand under."""
    found: dict[str, str] = {}
    title, kind = "", _KINDS.get(dialect, dialect)
    for part in _PART.finditer(PAGE.read_text(encoding="utf-8")):
        title = part["title"] or title
        if part["kind"] == kind:
            found[f"{title}, further" if title in found else title] = part["sql"].strip()
    return found


def questions(dialect: str, newest: int = NEWEST) -> dict[str, str]:
    """Return the same for the history that is written here, of its newest jobs.

    There the promise is for a task that it has, and jobs end in their second attempt.
    """
    ours = {
        "send_receipt": f"{PREFIX}task_0",
        "attempt = 1": "attempt = 2",
        f"{NEWEST}": f"{newest}",
    }
    found = blocks(dialect)
    for said, meant in ours.items():
        found = {name: sql.replace(said, meant) for name, sql in found.items()}
    return found


async def bi(
    url: str, *, finished: int = 5_000_000, newest: int = NEWEST, asks: int = 5
) -> Answers:
    """Fill the tables, and ask each question.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`. Its endpoints' attempts and
            its audit are removed.
        finished: how many jobs; a tenth of them are webhooks.
        newest: how many of these a question looks at that goes by jobs.
        asks: how often each is asked.

    Raises:
        MutiraoError: the database is not ours to use.
    """
    async with ground(url) as place:
        await place.change(_clear)
        await place.change(lambda conn: fill(conn, finished))
        try:
            await place.store.refresh_statistics()
            await history.add_up(place.store)
            found = await _asked(place, newest, asks)
        finally:
            await place.change(_clear)
            await place.prepare()
    return Answers(finished=finished, questions=found)


def fill(conn: Connection, finished: int) -> None:
    """Write a history, with webhooks, redrives and who made these."""
    history.fill(conn, finished, 0)
    for statement in (
        "INSERT INTO mutirao_webhook_attempt (job, run, endpoint, host, status, milliseconds, body,"
        " truncated, request_headers, finished_at)"
        " SELECT job, run, CASE job % 20 WHEN 0 THEN 'erp' ELSE 'shop' END, 'example.org', 200,"
        " job % 1000, '', false, '{}', finished_at FROM mutirao_attempt"
        f" WHERE job % {EVERY} = 0",
        f"UPDATE mutirao_job SET redrive_of = id - {EVERY}"
        f" WHERE id > {finished - 100} AND id % {EVERY} = 1",
        "INSERT INTO mutirao_action (who, action, filter, matched, done, state, started_at,"
        " seen_at, finished_at, why, stop)"
        " SELECT 'ana', 'redrive', 'state:dead', 12, 10, 'done', min(enqueued_at),"
        " max(enqueued_at), max(enqueued_at), '{}', false"
        " FROM mutirao_job WHERE redrive_of IS NOT NULL",
    ):
        formats = conn.dialect.paramstyle in ("format", "pyformat")
        conn.exec_driver_sql(statement.replace("%", "%%") if formats else statement)


def _clear(conn: Connection) -> None:
    history.clear(conn)
    for table in _OURS:
        conn.exec_driver_sql(f"DELETE FROM {table}")


async def _asked(place: Ground, newest: int, asks: int) -> dict[str, Asked]:
    from benchmarks.pages import Statement, rows_read  # which need the dashboard

    dialect = place.store.engines.dialect.name
    found: dict[str, Asked] = {}
    for name, sql in questions(dialect, newest).items():
        times: list[float] = []
        rows: list[Sequence[Any]] = []
        read: list[int] = []

        def ask(
            conn: Connection,
            sql: str = sql,
            times: list[float] = times,
            rows: list[Sequence[Any]] = rows,
            read: list[int] = read,
        ) -> None:
            for _ in range(asks + 1):
                started = perf_counter()
                rows[:] = answer(conn, sql)
                times.append((perf_counter() - started) * 1_000)
            read.extend(rows_read(conn, [Statement(each, None) for each in statements(sql)]))

        await place.change(ask)
        later = sorted(times[1:])  # the first one fills caches
        found[name] = Asked(later[len(later) // 2], len(rows), max(read, default=None))
    return found


def answer(conn: Connection, sql: str) -> Sequence[Any]:
    """Return what the last statement of a block finds."""
    rows: Sequence[Any] = ()
    for each in statements(sql):
        result = conn.exec_driver_sql(each)
        rows = result.all() if result.returns_rows else ()
    return rows


def statements(sql: str) -> Iterator[str]:
    """Yield the statements of a block, as tools send them: one after another."""
    for each in sql.split(";\n"):
        yield each.strip()
