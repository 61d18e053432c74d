"""`web`: how long each page of the dashboard takes on large tables, and what it asks for.

Each is asked for without what the process keeps, as the first of many open tabs does. Beside the
time: how many statements, and how many rows the one that reads most of them reads, as the database
says it of the same statement once more.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import httpx2
from sqlalchemy import Connection, Engine, event, text

from benchmarks import history
from benchmarks.figures import Figures
from benchmarks.ground import Ground
from benchmarks.load import PREFIX, Load
from mutirao.errors import SchemaMissing
from mutirao.sql.drivers import own
from mutirao.web import Access

JOB, WAITING_JOB = "(a job)", "(a waiting job)"
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "jobs, 1,000 further": "(next)",
    **{
        f"jobs, {text}": f"/jobs?q={text}"
        for text in (
            "state:dead", "state:running", "state:ready", "state:scheduled", "state:blocked",
            "state:succeeded", f"task:{PREFIX}task_3", "task:none", "error:shop.Busy",
            "error:None state:dead", "tenant:acme", "queue:mail older:2h", "key:none", "id:1..90",
            "attempt:>3",
        )
    },
    "a job": JOB,
    "a job that waits": WAITING_JOB,
    "errors": "/errors",
    "queues": "/queues",
    "schedules": "/schedules",
    "workers": "/workers",
    "limits": "/limits",
    "topics": "/topics",
    "endpoints": "/endpoints",
    "hosts": "/hosts",
    "audit": "/audit",
    "doctor": "/doctor",
    "all that match": "/everything?q=state:dead",
    "suggestions": "/suggestions?q=task:&at=5",
    "API: jobs": "/api/v1/jobs?filter=state:dead",
    "API: counts": "/api/v1/counts?filter=state:dead",
    "API: statistics": "/api/v1/statistics",
    "API: errors": "/api/v1/errors",
}  # fmt: skip


class Statement(NamedTuple):
    """A statement as the driver was given it."""

    text: str
    parameters: Any


class PageCost(NamedTuple):
    """What a page took.

    Parameters:
        p50, p95: milliseconds, of all times that it was asked for.
        statements: how many it sends, BEGIN and COMMIT not counted.
        rows: that the statement which reads most reads; None where the database does not tell.
        status: of the answer, which may say that the database took too long.
    """

    p50: float
    p95: float
    statements: int
    rows: int | None
    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCosts:
    """What each page took.

    Parameters:
        finished, live: jobs in the tables.
        asks: how often each was asked for.
        tabs: statements of fifty tabs with the overview at once, and of one.
    """

    finished: int
    live: int
    asks: int
    pages: dict[str, PageCost]
    tabs: tuple[int, int]

    def figures(self) -> Figures:
        """Return them by name."""
        found: Figures = {"finished jobs": self.finished, "live jobs": self.live}
        for name, its in self.pages.items():
            found[f"{name}: p50, ms"], found[f"{name}: p95, ms"] = its.p50, its.p95
            found[f"{name}: statements"], found[f"{name}: rows read"] = its.statements, its.rows
            if its.status != 200:
                found[f"{name}: status"] = its.status
        found["50 tabs: statements"], found["1 tab: statements"] = self.tabs
        return found


async def web(
    url: str, *, finished: int = 5_000_000, live: int = 1_000_000, asks: int = 20,
    quick: bool = False, keep: bool = False,
) -> PageCosts:  # fmt: skip
    """Fill the tables, and ask for each page of the dashboard.

    Parameters:
        url: a database that a benchmark may use, see `Ground.prepare`.
        finished, live: how many jobs; of SQLite a fifth and a tenth of these are as usual.
        asks: how often each page is asked for.
        quick: a hundredth of the jobs, and three asks.
        keep: leave the jobs there for the next time, or measure those of the last time.

    Raises:
        MutiraoError: the database is not ours to use.
    """
    if quick:
        finished, live, asks = finished // 100, live // 100, 3
    async with _filled(url, finished, live, keep=keep) as place:
        ids = {JOB: finished, WAITING_JOB: finished + live - 1}
        pages, tabs = await _asked(place, url, ids, asks)
    return PageCosts(finished=finished, live=live, asks=asks, pages=pages, tabs=tabs)


@asynccontextmanager
async def _filled(url: str, finished: int, live: int, *, keep: bool) -> AsyncIterator[Ground]:
    """Lend a database with so many jobs; if it is to keep them, it may have them already."""
    place = Ground(url)
    try:
        if not keep or not await _is_filled(place, finished + live):
            await place.prepare()
            await place.change(lambda conn: history.fill(conn, finished, live))
            await place.store.refresh_statistics()
        await place.change(lambda conn: history.go_on(conn, finished))
        await history.add_up(place.store)
        yield place
    finally:
        if not keep:
            await place.change(history.clear)
            await place.prepare()
        await place.close()


async def _is_filled(place: Ground, jobs: int) -> bool:
    try:
        return await place.ask(lambda conn: history.is_there(conn, jobs))
    except SchemaMissing:  # not even the file is there
        return False


async def _asked(
    place: Ground, url: str, ids: Mapping[str, int], asks: int
) -> tuple[dict[str, PageCost], tuple[int, int]]:
    app = Load(url).app
    site = app.web(access=lambda _: Access.admin("bench"))
    transport = httpx2.ASGITransport(app=site)
    found: dict[str, PageCost] = {}
    try:
        async with httpx2.AsyncClient(transport=transport, base_url="http://bench") as client:
            further = await _further(client)
            for name, path in PAGES.items():
                where = further if path == "(next)" else path
                where = f"/jobs/{ids[path]}" if path in ids else where
                found[name] = await _page(place, site, client, where, asks)
            tabs = await _tabs(site, client)
    finally:
        await site.aclose()
        await app.aclose()
    return found, tabs


async def _further(client: httpx2.AsyncClient) -> str:
    """Return the path of the twentieth page of jobs."""
    path = "/jobs"
    for _ in range(20):
        following = re.search(r'href="([^"]+)" rel="next"', (await client.get(path)).text)
        if following is None:
            return path
        path = following[1].replace("&amp;", "&")
    return path


async def _page(
    place: Ground, site: Any, client: httpx2.AsyncClient, path: str, asks: int
) -> PageCost:
    times, sent, status = [], list[Statement](), 200
    for _ in range(asks + 1):  # the first opens connections, and fills the caches of the database
        site.readings.forget()
        with heard() as statements:
            started = perf_counter()
            status = (await client.get(path)).status_code
            times.append((perf_counter() - started) * 1_000)
        sent = statements
    times = sorted(times[1:])
    known: list[int] = []
    await place.change(lambda conn: known.extend(rows_read(conn, sent)))
    return PageCost(
        p50=times[len(times) // 2], p95=times[min(len(times) - 1, int(len(times) * 0.95))],
        statements=len(sent), rows=max(known, default=None), status=status,
    )  # fmt: skip


async def _tabs(site: Any, client: httpx2.AsyncClient) -> tuple[int, int]:
    """Return the statements of fifty tabs, and of one."""
    counts = []
    for tabs in (50, 1):
        site.readings.forget()
        with heard() as statements:
            await asyncio.gather(*(client.get("/") for _ in range(tabs)))
        counts.append(len(statements))
    return counts[0], counts[1]


@contextmanager
def heard() -> Iterator[list[Statement]]:
    """Collect the statements that this process sends meanwhile."""
    statements: list[Statement] = []

    def hear(_: Any, __: Any, text: str, parameters: Any, *___: Any) -> None:
        statements.append(Statement(text, parameters))

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        with own.counted(lambda: statements.append(Statement("", None))):
            yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


def rows_read(conn: Connection, sent: Sequence[Statement]) -> Iterator[int]:
    """Yield how many rows each statement reads, as the database says; none where it does not.

    In one transaction, with the settings that were said before them.
    """
    ways = {"postgresql": _by_plan, "mysql": _by_counters, "mariadb": _by_counters}
    read = ways.get(conn.dialect.name)
    for each in sent if read else ():
        if re.match(r"\s*(SET\b|SELECT set_config)", each.text, re.IGNORECASE):
            conn.exec_driver_sql(each.text, each.parameters)
        elif re.match(r"\s*(SELECT|WITH)\b", each.text, re.IGNORECASE):
            yield read(conn, each)  # type: ignore[misc]


def _by_plan(conn: Connection, statement: Statement) -> int:
    explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement.text}"
    found = conn.exec_driver_sql(explain, statement.parameters).scalar_one()
    plans: Any = json.loads(found) if isinstance(found, str) else found
    return round(sum(_of_scans(plans[0]["Plan"])))


def _of_scans(node: dict[str, Any]) -> Iterator[float]:
    """Yield the rows that each scan of a table read, with those that it threw away."""
    if "Relation Name" in node or node["Node Type"] == "Bitmap Index Scan":
        thrown = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
        each = node["Actual Rows"] + sum(node.get(fact, 0) for fact in thrown)
        yield each * node["Actual Loops"] if node["Node Type"] != "Bitmap Index Scan" else 0.0
    for child in node.get("Plans", ()):
        yield from _of_scans(child)


def _by_counters(conn: Connection, statement: Statement) -> int:
    before, idle = _handled(conn), _handled(conn)
    conn.exec_driver_sql(statement.text, statement.parameters).all()
    return max(0, _handled(conn) - idle - (idle - before))


def _handled(conn: Connection) -> int:
    """Return how many rows the session has read of tables.

    MySQL counts those of its own temporary tables among them, and each search of an index.
    """
    counters = "Rows_read" if conn.dialect.is_mariadb else "Handler_read%"  # type: ignore[attr-defined]
    rows = conn.execute(text(f"SHOW SESSION STATUS LIKE '{counters}'")).all()
    return sum(int(value) for _, value in rows)
