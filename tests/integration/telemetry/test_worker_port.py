"""The port of a worker: what it counts, its probes, and that nobody there can hold it up."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mutirao import Job, Mutirao, Tasks
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import ConfigurationError, MissingDriver
from mutirao.telemetry.prometheus.http_port import MOST_AT_ONCE
from mutirao.transports.memory import MemoryTransport
from tests.integration.telemetry.kit import Told, asked, samples
from tests.integration.telemetry.watching import lose_client
from tests.integration.worker.kit import ended, working
from tests.support.servers import free_port
from tests.support.waiting import soon, until

APART = Tasks()


@APART.task(process=True)
def apart() -> None:
    """Do nothing, in a process of its own."""


Ask = Callable[[str], "asyncio.Future[Told]"]


@pytest.fixture
def url(lite_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return lite_url


@pytest.fixture
def ask(caplog: pytest.LogCaptureFixture) -> Ask:
    """Ask the port of the worker that has begun last, as it says in the log."""
    caplog.set_level("INFO", "mutirao")

    def path(name: str) -> asyncio.Future[Told]:
        found = re.findall(r"metrics at (http://127\.0\.0\.1:\d+)/metrics", caplog.text)
        return asyncio.ensure_future(asyncio.to_thread(asked, found[-1] + name))

    return path


async def test_a_worker_counts_what_it_does(app: Mutirao, ask: Ask) -> None:
    """What it knows at the start begins at zero; children report through it."""

    @app.task(queue="mail")
    async def send() -> None:
        pass

    @app.task(queue="reports")
    async def never() -> None:
        pass

    app.include(APART)
    async with working(app, metrics_port=0):
        before = samples((await ask("/metrics")).text)
        assert before["mutirao_attempts_total", "dead", "reports", "never"] == 0
        assert before["mutirao_attempt_duration_seconds_count", "reports", "never"] == 0
        assert before["mutirao_wait_seconds_count", "mail"] == 0
        jobs = [*(send.job() for _ in range(30)), apart.job()]
        for id in await app.aenqueue_many(jobs):
            await ended(app, id)

        async def all_told() -> dict[tuple[str, ...], float]:
            now = samples((await ask("/metrics")).text)
            return now if now["mutirao_attempts_total", "succeeded", "default", "apart"] else {}

        now = await until(all_told)
        reply = await ask("/metrics")
    assert now["mutirao_attempts_total", "succeeded", "mail", "send"] == 30
    assert now["mutirao_wait_seconds_bucket", "+Inf", "mail"] == 30
    assert now["mutirao_attempt_duration_seconds_count", "mail", "send"] == 30
    assert now["mutirao_attempt_duration_seconds_sum", "default", "apart"] > 0
    assert now["mutirao_claimed_jobs_sum",] == 31
    assert now["mutirao_settle_seconds_count",] >= 2
    assert (now["mutirao_slots",], now["mutirao_running_jobs",]) == (20, 0)
    assert now["mutirao_worker_ready",] == 1
    assert 0 <= now["mutirao_heartbeat_age_seconds",] < 60
    assert now["mutirao_rescued_total",] == now["mutirao_fenced_total",] == 0
    assert now["process_resident_memory_bytes",] > 1e6
    assert not any(name[0].startswith("python_gc") for name in now)
    assert (reply.status, reply.content_type.partition(";")[0]) == (200, "text/plain")


async def test_a_relay(lite_url: str, ask: Ask) -> None:
    """It has a port as workers do, and says whether it carries."""
    app = Mutirao(lite_url, transports={"mail": MemoryTransport("carried")})

    @app.task(queue="mail")
    async def send() -> None:
        pass

    async with app.relay(metrics_port=0):
        now = samples((await ask("/metrics")).text)
        assert (await ask("/readyz")).status == 200
    assert now["mutirao_worker_ready",] == 1
    assert 0 <= now["mutirao_heartbeat_age_seconds",] < 60
    await app.aclose()


async def test_probes(app: Mutirao, ask: Ask) -> None:
    """It is live from its start to its end, and ready while it works."""
    release, told = asyncio.Event(), list[Told]()

    @app.task
    async def holds(job: Job) -> None:
        release.set()
        await until(lambda: job.cancelled)
        told.extend([await ask("/livez"), await ask("/readyz")])

    async with working(app, metrics_port=0):
        assert json.loads((await ask("/livez")).text) == {"status": "ok"}
        assert (await ask("/readyz")).status == 200
        assert (await ask("/other")).status == 404
        await holds.aenqueue()
        await soon(release.wait())
    live, ready = told
    assert (live.status, ready.status) == (200, 503)
    assert json.loads(ready.text)["reason"] == "it has been stopped"
    with pytest.raises(OSError, match="refused"):  # the port is free again
        await ask("/livez")


async def test_a_loop_that_hangs_is_not_alive(
    app: Mutirao, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port answers while nothing else can, and says so."""
    monkeypatch.setattr(WorkerSettings, "turn_limit", 0.5)
    blocked, release = threading.Event(), threading.Event()

    @app.task
    async def blocks() -> None:
        blocked.set()
        release.wait(100)  # the event loop stands still

    worker = working(app, metrics_port=0)
    with worker:
        await blocks.aenqueue()
        await until(blocked.is_set)

        async def dead() -> Told | None:
            told = await ask("/livez")
            return told if told.status == 503 else None

        try:
            told = await until(dead)
            assert (await ask("/metrics")).status == 200
        finally:
            release.set()
    assert "no turn of" in json.loads(told.text)["reason"]


async def test_a_port_that_is_taken(app: Mutirao) -> None:
    """One clear error, and nothing is started."""

    @app.task
    async def send() -> None:
        pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"metrics_port is {port}, and nobody can"):
            async with working(app, metrics_port=port):
                pass
    assert await app.aworkers() == []
    async with working(app, metrics_port=port):  # who waits a moment has it
        pass
    with pytest.raises(ConfigurationError, match="give at most 65535"):
        working(app, metrics_port=65_536)


async def test_scrapes_that_hang(app: Mutirao, ask: Ask) -> None:
    """Have a place each, of so many, and hold up no job."""

    @app.task
    async def send() -> None:
        pass

    port = free_port()
    async with working(app, metrics_port=port):
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(MOST_AT_ONCE)]
        try:
            await until(
                lambda: (
                    sum(each.name.startswith("Thread-") for each in threading.enumerate())
                    >= MOST_AT_ONCE
                )
            )
            assert (await ended(app, (await send.aenqueue()).id)).state == "succeeded"
            with pytest.raises(OSError, match=r"reset|closed|refused"):
                await ask("/metrics")
        finally:
            for each in silent:
                each.close()

        async def answered() -> bool:
            try:
                return (await ask("/metrics")).status == 200
            except OSError:
                return False

        await until(answered)


async def test_without_its_package(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which extra brings it."""
    lose_client(monkeypatch)
    with pytest.raises(MissingDriver, match=r"pip install 'mutirao\[prometheus\]'"):
        async with working(app, metrics_port=0):
            pass


def test_each_process_has_a_port(tmp_path: Path) -> None:
    """The next one for the next process; there have to be so many."""
    from click.testing import CliRunner

    from mutirao.cli.worker import _port_of, worker

    assert [_port_of(9464, place) for place in range(2)] == [
        ["--metrics-port", "9464"],
        ["--metrics-port", "9465"],
    ]
    assert _port_of(0, 3) == ["--metrics-port", "0"]
    assert _port_of(None, 3) == []
    refused = CliRunner().invoke(worker, ["shop:app", "--metrics-port", "65535", "--processes=2"])
    assert (refused.exit_code, "give at most 65534" in refused.output) == (2, True)
