"""Whatever stands in a row: it is that job's trouble, and nobody else's."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from sqlalchemy import create_engine, text

from mutirao import Job, JobState, Mutirao
from mutirao.errors import MutiraoError
from mutirao.web import Access
from mutirao.web.site import Settings, Site
from mutirao_conformance.kit import join
from tests.integration.worker.kit import LIVE, ended, until_state, working
from tests.support.waiting import until

LAST = 2_147_483_647


def write(app: Mutirao, statement: str, **values: Any) -> None:
    """Change the tables by hand."""
    engine = create_engine(app.url)
    try:
        with engine.begin() as connection:
            connection.execute(text(statement), values)
    finally:
        engine.dispose()


@pytest.mark.parametrize("column", ["run", "attempt"])
@pytest.mark.parametrize("value", [LAST, LAST - 1, -5, -LAST])
async def test_numbers_at_the_end_of_their_range(app: Mutirao, column: str, value: int) -> None:
    """The next one is found whatever the last one was; the job is tried, and ends."""

    @app.task(max_attempts=3)
    async def step(job: Job) -> None: ...

    poisoned, innocent = app.enqueue_many([step.job(), step.job()])
    write(app, f"UPDATE mutirao_live SET {column} = :n WHERE id = :id", n=value, id=poisoned)  # noqa: S608
    async with working(app) as worker:
        assert (await ended(app, innocent)).state is JobState.SUCCEEDED
        assert (await ended(app, poisoned)).state is JobState.SUCCEEDED
        assert worker.health().alive


@pytest.mark.parametrize("column", ["run", "attempt"])
async def test_they_can_be_cancelled_and_rescued(app: Mutirao, column: str) -> None:
    """By people and by other workers."""
    cancelled, lost = app.enqueue_many([_job(app), _job(app)])
    write(app, f"UPDATE mutirao_live SET {column} = {LAST}")  # noqa: S608
    worker = await _claim(app, lost)
    assert await app.acancel(cancelled) == [cancelled]
    write(app, f"UPDATE mutirao_live SET {column} = {LAST} WHERE id = {lost}")  # noqa: S608
    write(app, f"DELETE FROM mutirao_worker WHERE id = {worker}")  # noqa: S608
    assert [id for id, _ in await app.store.rescue()] == [lost]


@pytest.mark.parametrize(
    "moment", ["long before", "far too late", "before all", "after all", "text"]
)
async def test_times_out_of_range(app: Mutirao, moment: str, url: str) -> None:
    """People can look, and the others run; what is due at a strange time in the past runs, too."""
    column = await _strange(app, moment, url)
    if column is None:
        return
    assert all(job.run_at for job in await app.ajobs())
    async with working(app) as worker:
        [innocent] = app.enqueue_many([_job(app)])
        assert (await ended(app, innocent)).state is JobState.SUCCEEDED
        if moment in ("long before", "before all"):
            for job in await app.ajobs():
                await ended(app, job.id)
        assert worker.health().alive
    assert await app.ajobs()


async def _strange(app: Mutirao, moment: str, url: str) -> str | None:
    [strange] = app.enqueue_many([_job(app)])
    on_sqlite = {
        "long before": "-99999999999999999", "far too late": "999999999999999999",
        "before all": "-9223372036854775808", "after all": "9223372036854775807",
        "text": "'tomorrow'",
    }  # fmt: skip
    on_postgresql = {
        "long before": "'4000-01-01 BC'", "far too late": "'200000-01-01'",
        "before all": "'-infinity'", "after all": "'infinity'",
    }  # fmt: skip
    known = on_sqlite if url.startswith("sqlite") else on_postgresql
    if moment not in known:  # PostgreSQL has types
        return None
    write(app, f"UPDATE mutirao_live SET run_at = {known[moment]} WHERE id = {strange}")  # noqa: S608
    return known[moment]


ARGUMENTS = {
    "half a character": '{"n": "\\ud800"}',
    "deep": '{"n": ' + "[" * 1_500 + "]" * 1_500 + "}",
    "a large number": '{"n": 1' + "0" * 5_000 + "}",
    "twice": '{"n": 1, "n": 2}',
}


@pytest.mark.parametrize("what", ARGUMENTS)
async def test_arguments_of_other_programs(app: Mutirao, what: str) -> None:
    """A database accepts them: the job is dead or done, and people can look at it and at others."""

    @app.task
    async def takes(n: Any) -> None: ...

    write(
        app,
        "INSERT INTO mutirao_job (task, args) VALUES ('takes', :args)"
        if str(app.url).startswith("sqlite")
        else "SELECT mutirao_enqueue('takes', CAST(:args AS json))",
        args=ARGUMENTS[what],
    )
    [innocent] = app.enqueue_many([_job(app)])
    async with working(app) as worker:
        assert (await ended(app, innocent)).state is JobState.SUCCEEDED
        found = [job for job in await app.ajobs() if job.task == "takes"]
        await until_state(app, found[0].id, *(set(JobState) - LIVE))
        assert worker.health().alive


async def test_a_queue_that_nobody_serves(app: Mutirao) -> None:
    """Lanes in which jobs take turns have names of their own: a queue cannot be called so."""
    statement = (
        "INSERT INTO mutirao_job (task, queue) VALUES ('x', char(31) || 'x')"
        if str(app.url).startswith("sqlite")
        else "SELECT mutirao_enqueue('x', queue => E'\\x1fx')"
    )
    with pytest.raises(Exception, match=r"(?i)check constraint"):
        write(app, statement)


async def test_types_that_sqlite_would_keep(lite_url: str) -> None:
    """SQLite has any value in any column; what a job says is checked where it is said."""
    app = Mutirao(lite_url)
    for column, value in (
        ("task", "x'00ff'"), ("queue", "x'00ff'"), ("max_attempts", "'many'"),
        ("timeout", "'long'"), ("key", "x'00'"), ("args", "'{a: 1}'"), ("enqueued_at", "'now'"),
    ):  # fmt: skip
        given = {"task": "'t'", column: value}
        names, values = ", ".join(given), ", ".join(given.values())
        with pytest.raises(Exception, match=r"CHECK constraint failed|malformed JSON"):
            write(app, f"INSERT INTO mutirao_job ({names}) VALUES ({values})")  # noqa: S608
    await app.aclose()


async def test_live_rows_that_sqlite_would_keep(lite_url: str) -> None:
    """Nobody checks the rows of live jobs: what cannot be served is passed over."""
    app = Mutirao(lite_url)
    ids = app.enqueue_many([_job(app) for _ in range(4)])
    for id, change in zip(ids, ("queue = x'ff'", "priority = 'p'", "run_at = 'r'"), strict=False):
        write(app, f"UPDATE mutirao_live SET {change} WHERE id = {id}")  # noqa: S608
    async with working(app) as worker:
        assert (await ended(app, ids[-1])).state is JobState.SUCCEEDED
        assert worker.health().alive
    await app.aclose()


async def test_fractions_that_sqlite_keeps(lite_url: str) -> None:
    """As of a time that SQL computes: the job is served, and those after it in its lane."""
    app = Mutirao(lite_url)
    _job(app)
    for column, value in (("run_at", "1700000000000000.5"), ("priority", "0.5")):
        write(app, f"INSERT INTO mutirao_job (task, {column}) VALUES ('harmless', {value})")  # noqa: S608
    kept = "SELECT typeof(run_at), typeof(priority) FROM mutirao_live ORDER BY id"
    assert read(app, kept) == [("real", "integer"), ("integer", "real")]
    ids = [*(job.id for job in await app.ajobs()), *app.enqueue_many([_job(app)])]
    async with working(app) as worker:
        for id in ids:
            assert (await ended(app, id)).state is JobState.SUCCEEDED
        assert worker.health().alive
    await app.aclose()


@pytest.mark.parametrize("column", ["filter", "options"])
async def test_a_subscription_of_bytes(lite_url: str, column: str) -> None:
    """SQLite keeps them where a text is declared: it is shown beside others, as unfit."""
    app = Mutirao(lite_url)

    @app.subscriber("mail", topic="order.*")
    async def mail(order: Any) -> None: ...

    for name in ("strange", "usual"):
        await app.subscriptions.aput(name, mail, "order.*")
    write(app, f"UPDATE mutirao_subscription SET {column} = x'00ff' WHERE id = 'strange'")  # noqa: S608
    strange, usual = await app.subscriptions.alist()
    assert (bool(strange.unfit), usual.unfit) == (True, None)
    assert any("strange" in each.found for each in await app.aexamine())
    await app.aclose()


@pytest.mark.parametrize(
    ("column", "more"),
    [
        ("id", {}), ("id", {"order_by": "n"}), ("id", {"filter": {"n": 1}}), ("topic", {}),
        ("task", {}), ("queue", {}),
    ],
)  # fmt: skip
async def test_a_subscription_called_in_bytes(
    lite_url: str, column: str, more: dict[str, Any]
) -> None:
    """It is listed beside others, by a text that shows the bytes; others are told."""
    app = Mutirao(lite_url)

    made: Any = app.topic("order.made", dict[str, int])

    @app.subscriber("mail", topic="order.*")
    async def mail(order: Any) -> None: ...

    await app.subscriptions.aput("strange", mail, "order.*", **more)
    await app.subscriptions.aput("usual", mail, "order.*")
    write(app, f"UPDATE mutirao_subscription SET {column} = x'00ff' WHERE id = 'strange'")  # noqa: S608
    await _all_is_listed(app)
    found = [getattr(each, column) for each in await app.subscriptions.alist()]
    assert r"\x00\xff" in found
    async with working(app) as worker:
        await made.apublish({"n": 1})
        told = "SELECT 1 FROM mutirao_delivery WHERE subscription = 'usual'"
        assert await until(lambda: read(app, told))
        assert worker.health().alive
    await app.aclose()


@pytest.mark.parametrize("column", ["name", "task", "queue", "timezone"])
async def test_a_schedule_called_in_bytes(lite_url: str, column: str) -> None:
    """It is listed beside others, by a text that shows the bytes; others tick."""
    app = Mutirao(lite_url)
    for name in ("strange", "usual"):
        await app.schedules.aput(name, _job(app), every=0.05)
    write(app, f"UPDATE mutirao_schedule SET {column} = x'00ff' WHERE name = 'strange'")  # noqa: S608
    await _all_is_listed(app)
    found = [getattr(each, column) for each in await app.schedules.alist()]
    assert r"\x00\xff" in found
    async with working(app) as worker:

        async def ticked() -> bool:
            listed = {each.name: each.runs for each in await app.schedules.alist()}
            return listed["usual"] > 2

        assert await until(ticked)
        assert worker.health().alive
    await _all_is_listed(app)
    await app.aclose()


async def _all_is_listed(app: Mutirao) -> None:
    site = Site(app, Settings(access=lambda _: Access.admin("ana")))
    transport = httpx2.ASGITransport(app=site)
    async with httpx2.AsyncClient(transport=transport, base_url="http://jobs") as client:
        for path in ("/metrics", "/schedules", "/topics", "/api/v1/schedules"):
            answer = await client.get(path)
            assert answer.status_code == 200, (path, answer.text)
    await site.client.aclose()
    assert await app.aexamine()


async def test_a_trigger_that_refuses(pg_app: Mutirao) -> None:
    """An outcome that the database refuses fails its attempt; the others are settled."""
    write(
        pg_app,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.outcome = 'succeeded' AND NEW.job % 7 = 0 THEN RAISE EXCEPTION 'not this one';"
        " END IF; RETURN NEW; END $$",
    )
    write(
        pg_app,
        "CREATE TRIGGER refuse BEFORE INSERT ON mutirao_attempt FOR EACH ROW"
        " EXECUTE FUNCTION refuse()",
    )
    try:

        @pg_app.task(max_attempts=1)
        async def step() -> None: ...

        ids = pg_app.enqueue_many([step.job() for _ in range(30)])
        async with working(pg_app) as worker:
            jobs = [await ended(pg_app, id) for id in ids]
            assert worker.health().alive
    finally:
        write(pg_app, "DROP TRIGGER refuse ON mutirao_attempt")
        write(pg_app, "DROP FUNCTION refuse")
    for job in jobs:
        assert str(job.state) == ("dead" if job.id % 7 == 0 else "succeeded")
        if job.id % 7 == 0:
            assert job.error_type == "SettlingFailed"
            assert "not this one" in (job.error or "")


async def test_a_result_that_is_no_json(app: Mutirao) -> None:
    """Whoever looks at the job reads why; whoever waits for the result is told."""

    @app.task(keep_result=60)
    async def answer() -> int:
        return 42

    handle = answer.enqueue()
    async with working(app):
        assert (await ended(app, handle.id)).state is JobState.SUCCEEDED
    write(app, "UPDATE mutirao_result SET value = '{'")
    assert "JSON" in (await app.ajob(handle.id)).result["unreadable"]
    with pytest.raises(MutiraoError):
        await handle.aresult(timeout=1)


def _job(app: Mutirao) -> Any:
    if "harmless" not in app.tasks:

        @app.task(name="harmless")
        async def harmless() -> None: ...

    task: Any = app.task_named("harmless")
    return task.job()


async def _claim(app: Mutirao, id: int) -> int:
    worker = await join(app.store, now=None)
    lanes = [head.lane for head in await app.store.lanes(None)]
    claims = await app.store.claim(worker, lanes, 9)
    assert id in [claim.id for claim in claims]
    await app.store.release([(c.id, c.run) for c in claims if c.id != id])
    return worker


@pytest.mark.parametrize("column", ["task", "tenant", "metadata", "queue"])
async def test_bytes_that_are_no_text(lite_url: str, column: str) -> None:
    """SQLite keeps them as text, which its driver refuses to read: that job is dead."""
    app = Mutirao(lite_url)
    strange, *innocent = app.enqueue_many([_job(app) for _ in range(3)])
    told = "x'7b2261223a22ff227d'" if column == "metadata" else "x'ff61'"
    for table in ("job", "live") if column == "queue" else ("job",):
        write(
            app,
            f"UPDATE mutirao_{table} SET {column} = CAST({told} AS text) WHERE id = {strange}",  # noqa: S608
        )
    async with working(app, poll=0.2, heartbeat=1.0, expiry=30.0) as worker:
        for id in innocent:
            assert (await ended(app, id)).state is JobState.SUCCEEDED
        its = f"SELECT outcome, error_type FROM mutirao_attempt WHERE job = {strange}"  # noqa: S608
        found = await until(lambda: read(app, its))
        assert found == [("dead", "UnreadableJob")]
        assert worker.health().alive
    await app.aclose()


def read(app: Mutirao, statement: str) -> list[tuple[Any, ...]]:
    """Look into the tables."""
    engine = create_engine(app.url)
    try:
        with engine.begin() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]
    finally:
        engine.dispose()
