"""What the store holds: the numbers are the database's, and asking costs no more than is said."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import make_url

from mutirao import Limit, Mutirao, Retry
from mutirao.cli import main
from mutirao.errors import StoreUnavailable
from mutirao.telemetry.prometheus import store_metrics, store_port
from mutirao.telemetry.prometheus.enqueued import EnqueuedJobs
from mutirao.telemetry.prometheus.store_metrics import StoreMetrics
from mutirao.transports.memory import MemoryTransport
from mutirao.webhooks.keys import new_secret
from tests.integration.telemetry.kit import asked, samples
from tests.integration.telemetry.watching import lose_client
from tests.support.waiting import until


@pytest.fixture
def url(lite_url: str) -> str:
    """One database is enough: what it counts is decided elsewhere."""
    return lite_url


async def told(app: Mutirao, *queues: str) -> dict[tuple[str, ...], float]:
    """Return what is told of the application's store now."""
    return samples((await StoreMetrics(app.store, queues).scraped()).body.decode())


async def test_depths_ages_and_lags(app: Mutirao) -> None:
    """Of queues, workers, schedules, limits, subscriptions and endpoints."""
    topic = app.topic("paid", dict)

    @app.task(queue="mail", limit=Limit(1, name="one at a time"))
    async def send() -> None:
        pass

    @app.task(queue="held")
    async def hold() -> None:
        pass

    @app.subscriber("told", topic=topic)
    async def be_told(event: dict[str, int]) -> None:
        pass

    await app.schedules.aput("nightly", send.job(), cron="0 3 * * *")
    await app.limits.aput(Limit(1), queue="mail")
    await app.subscriptions.aput("erp", be_told, topic)
    await app.endpoints.aput("hook", "https://erp.example/", ["paid"], secret=new_secret())
    await app.endpoints.aput("gone", "https://old.example/", ["paid"], secret=new_secret())
    await app.endpoints.apause("gone")
    await app.apause(queue="held")
    await app.aenqueue_many([send.job(), send.job(), hold.job()])
    await send.using(delay=3600).aenqueue()
    await topic.apublish({})
    async with app.worker(queues=["elsewhere"]):
        found = await told(app, "known")
    assert found["mutirao_store_up",] == 1
    assert found["mutirao_jobs", "mail", "ready"] == 2
    assert found["mutirao_jobs", "mail", "scheduled"] == 1
    assert found["mutirao_jobs", "known", "ready"] == 0
    assert 0 < found["mutirao_oldest_ready_seconds", "mail"] < 100
    assert found["mutirao_oldest_ready_seconds", "known"] == 0
    assert found["mutirao_queue_paused", "held"] == 1
    assert found["mutirao_queue_paused", "mail"] == 0
    assert found["mutirao_queue_workers", "mail"] == 0
    assert (found["mutirao_workers", "alive"], found["mutirao_workers", "expired"]) == (1, 0)
    assert found["mutirao_schedules", "active"] == 1
    assert found["mutirao_schedule_lag_seconds", "nightly"] == 0
    assert found["mutirao_limit_parked_jobs", "queue mail"] == 0
    assert found["mutirao_subscription_lag_seconds", "erp"] == 0
    assert (found["mutirao_endpoints", "closed"], found["mutirao_endpoints", "paused"]) == (1, 1)
    assert found["mutirao_held_deliveries",] == 0


async def test_many_scrapes_are_one_reading(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the time that a reading is kept, and while it is read."""
    readings = 0

    async def counted(*of: Any) -> store_metrics.StoreReading:
        nonlocal readings
        readings += 1
        await asyncio.sleep(0)
        return await read(*of)

    read = store_metrics.read
    monkeypatch.setattr(store_metrics, "read", counted)
    metrics = StoreMetrics(app.store)
    answers = await asyncio.gather(*(metrics.scraped() for _ in range(20)))
    assert readings == 1
    assert {each.status for each in answers} == {200}
    monkeypatch.setattr(store_metrics, "monotonic", lambda: metrics._fresh_until)
    await metrics.scraped()
    assert readings == 2


async def test_a_slow_reading_takes_a_tenth_of_the_time(
    app: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is scraped."""
    moments = iter([0.0, 0.0, 6.0, 6.0])
    monkeypatch.setattr(store_metrics, "monotonic", lambda: next(moments))
    metrics = StoreMetrics(app.store)
    await metrics.scraped()
    assert metrics._fresh_until == 66.0


async def test_a_database_that_is_away(
    app: Mutirao, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so, once in the log, and tells no old numbers as if they were new."""

    async def away(*of: object) -> store_metrics.StoreReading:
        raise StoreUnavailable("the database cannot be reached")

    metrics = StoreMetrics(app.store, least_age=0.0)
    before = samples((await metrics.scraped()).body.decode())
    assert ("mutirao_workers", "alive") in before
    with monkeypatch.context() as patched:
        patched.setattr(store_metrics, "read", away)
        for _ in range(3):
            metrics._fresh_until = 0.0  # as after some seconds
            found = samples((await metrics.scraped()).body.decode())
            assert found["mutirao_store_up",] == 0
            assert ("mutirao_workers", "alive") not in found
    assert caplog.text.count("the database cannot be reached") == 1
    metrics._fresh_until = 0.0
    assert samples((await metrics.scraped()).body.decode())["mutirao_store_up",] == 1


async def test_what_nobody_has_foreseen(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is raised once, and the database is not asked by each scrape for it."""
    readings = 0

    async def unforeseen(*of: object) -> store_metrics.StoreReading:
        nonlocal readings
        readings += 1
        raise ValueError("a row that cannot be read")

    monkeypatch.setattr(store_metrics, "read", unforeseen)
    metrics = StoreMetrics(app.store)
    with pytest.raises(ValueError, match="a row that cannot be read"):
        await metrics.scraped()
    assert samples((await metrics.scraped()).body.decode())["mutirao_store_up",] == 0
    assert readings == 1


async def test_more_names_than_series(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with the greatest numbers have one; and half a character breaks nothing."""
    monkeypatch.setattr(store_metrics, "MOST_SERIES", 3)

    @app.task
    async def send() -> None:
        pass

    jobs = [send.using(queue=f"queue-{n}").job() for n in range(6) for _ in range(n)]
    await app.aenqueue_many(jobs)
    found = await told(app, "default")
    queues = {name[1] for name in found if name[0] == "mutirao_oldest_ready_seconds"}
    assert queues == {"default", "queue-5", "queue-4"}


async def test_the_port(app: Mutirao, caplog: pytest.LogCaptureFixture) -> None:
    """It answers from its own thread while the loop reads."""
    caplog.set_level("INFO", "mutirao")

    @app.task(queue="mail")
    async def send() -> None:
        pass

    serving = asyncio.create_task(store_port.serve(app, "127.0.0.1", 0, 10.0))
    await until(lambda: "metrics at" in caplog.text)
    address = caplog.text.rpartition("metrics at ")[2].strip()
    reply = await asyncio.to_thread(asked, address)
    assert samples(reply.text)["mutirao_jobs", "mail", "ready"] == 0
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving


async def test_brokers(lite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """What waits there and what is dead; one that is away keeps the others not back."""
    away, letters = MemoryTransport(), MemoryTransport()
    app = Mutirao(lite_url, transports={"letters": letters, "parcels": away})

    @app.task(queue="letters", retry=Retry.never())
    async def send(well: bool) -> None:
        assert well

    await letters.declare(["letters"])
    await send.aenqueue(well=False)
    async with app.worker(queues=["letters"]):
        await until(lambda: letters._queue("letters").dead)
    await send.aenqueue(well=True)
    away.available = False
    source = store_port.source_of(app)
    found = samples((await source.scraped()).body.decode())
    await source.aclose()
    await app.aclose()
    assert found["mutirao_broker_up", "letters"] == 1
    assert found["mutirao_broker_up", "parcels"] == 0
    assert found["mutirao_broker_waiting_messages", "letters"] == 1
    assert found["mutirao_broker_dead_messages", "letters"] == 1
    assert ("mutirao_broker_dead_messages", "parcels") not in found
    assert "queue parcels of broker" in caplog.text


async def test_several_databases(
    lite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has its name as a label, without a password; it follows the list; one may be away."""
    urls = [lite_url, f"sqlite:///{tmp_path / 'new.db'}"]
    app = Mutirao(lite_url)
    listed = [urls[0]]

    @app.databases
    def list_them() -> list[str]:
        if not listed:
            raise LookupError("the list is away")
        return listed

    @app.task(queue="mail")
    async def send() -> None:
        pass

    await send.aenqueue()
    source = store_port.source_of(app, 0.0)
    await source.check()
    listed.append(urls[1])  # which nobody has migrated
    text = (await source.scraped()).body.decode()
    assert text.count("# TYPE mutirao_store_up") == 1
    found = samples(text)
    first, second = (make_url(url).render_as_string() for url in urls)
    assert found["mutirao_jobs", first, "mail", "ready"] == 1
    assert (found["mutirao_store_up", first], found["mutirao_store_up", second]) == (1, 0)
    listed.clear()
    assert samples((await source.scraped()).body.decode())["mutirao_store_up", first] == 1
    assert "the list is away" in caplog.text
    listed.append(urls[1])
    found = samples((await source.scraped()).body.decode())
    assert ("mutirao_store_up", first) not in found
    await source.aclose()
    await app.aclose()


async def test_what_a_program_enqueues(app: Mutirao) -> None:
    """Counted by queue and task, in its own registry: jobs that were written, and no others."""
    registry = CollectorRegistry()
    EnqueuedJobs(registry).install(app)

    @app.task(queue="mail")
    async def send() -> None:
        pass

    await send.aenqueue()
    send.enqueue()
    await app.aenqueue_many([send.job(), send.using(queue="letters").job()])
    once = send.using(key="one", on_conflict="keep")
    assert [(await once.aenqueue()).created for _ in range(2)] == [True, False]
    found = samples(generate_latest(registry).decode())
    assert found["mutirao_jobs_enqueued_total", "mail", "send"] == 4
    assert found["mutirao_jobs_enqueued_total", "letters", "send"] == 1


def test_the_command(lite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--once` prints the text; without the package, the error names the extra."""
    (tmp_path / "once.py").write_text(f"from mutirao import Mutirao\napp = Mutirao({lite_url!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "once", raising=False)
    printed = CliRunner().invoke(main, ["metrics", "once:app", "--once"])
    assert printed.exit_code == 0, printed.output
    assert samples(printed.output)["mutirao_store_up",] == 1
    lose_client(monkeypatch)
    refused = CliRunner().invoke(main, ["metrics", "once:app", "--once"])
    assert refused.exit_code == 2
    assert "pip install 'mutirao[prometheus]'" in " ".join(refused.output.split())
