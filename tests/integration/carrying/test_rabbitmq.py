"""Workers and brokers that are killed, on RabbitMQ."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import get_args

import pytest

from mutirao import Mutirao
from mutirao.errors import TransportUnavailable
from mutirao.model.brokers.message import Mode
from mutirao.transports.rabbitmq import RabbitMQ
from tests.support.engine import setup_differences
from tests.support.rabbitmq import RabbitServer, emptied
from tests.support.waiting import until


@pytest.fixture
async def broker(rabbit: RabbitServer) -> AsyncIterator[RabbitMQ]:
    """A queue with nothing in it."""
    broker = RabbitMQ(rabbit.url(), prefix="killed")
    async with emptied(broker, rabbit, "mail"):
        yield broker


async def test_universal_and_special_workers(rabbit: RabbitServer, lite_url: str) -> None:
    """One of a queue takes nothing else; one without queues serves these and the database's."""
    broker = RabbitMQ(rabbit.url(), prefix="special")
    app = Mutirao(lite_url, transports={"mail": broker, "video": broker})
    ran: list[str] = []
    tasks = {
        queue: app.task(queue=queue, name=queue)(lambda queue: ran.append(queue))
        for queue in ("mail", "video", "default")
    }
    async with emptied(broker, rabbit, "mail", "video"):
        for each in ("video", "default", "mail", "mail"):
            await tasks[each].aenqueue(each)
        async with app.worker(queues=["mail"]) as special:
            await until(lambda: len(ran) == 2)
            assert "queue video" not in special.health().ages
        assert ran == ["mail", "mail"]
        async with app.worker():
            await tasks["mail"].aenqueue("mail")
            await until(lambda: len(ran) == 5)
        assert sorted(ran[2:]) == ["default", "mail", "video"]
    await app.aclose()
    app.close()


@pytest.mark.parametrize("mode", get_args(Mode))
async def test_a_queue_that_is_otherwise(
    mode: Mode,
    rabbit: RabbitServer,
    lite_url: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is served, and what differs is told once, with what to do."""
    monkeypatch.setattr(setup_differences, "AFTER", 0.0)
    theirs = RabbitMQ(rabbit.url(), prefix="differently", delivery_limit=3)
    ours = RabbitMQ(rabbit.url(), prefix="differently", delivery_limit=4, mode=mode)
    app = Mutirao(lite_url, transports={"mail": ours, "video": ours})
    ran: list[str] = []
    send = app.task(queue="mail", name="send")(lambda what: ran.append(what))
    async with emptied(theirs, rabbit, "mail"):
        await RabbitMQ(rabbit.url(), prefix="differently", delivery_limit=4).declare(["video"])
        async with app.worker(queues=["mail", "video"]):
            await send.aenqueue("a letter")
            await until(lambda: ran and "x-delivery-limit" in caplog.text)
    assert ran == ["a letter"]
    [said] = [each.getMessage() for each in caplog.records if "x-delivery" in each.getMessage()]
    assert said.endswith(
        "queue 'differently.mail' has x-delivery-limit = '3'; expected x-delivery-limit = '4'; it"
        " cannot be changed: delete it once it is empty, then declare it"
    )
    await app.aclose()
    app.close()


async def test_the_broker_is_killed() -> None:
    """Nothing that it confirmed is lost; workers come back by themselves."""
    with RabbitServer() as own:
        await _killed(own)


async def _killed(rabbit: RabbitServer) -> None:
    broker = RabbitMQ(rabbit.url())
    await broker.declare(["mail"])
    app = Mutirao(transports={"mail": broker})
    ran, gate = list[int](), asyncio.Event()

    @app.task(queue="mail")
    async def work(n: int) -> None:
        await gate.wait()
        ran.append(n)

    async with app.worker(queues=["mail"], concurrency=2) as worker:
        await app.aenqueue_many(work.job(n) for n in range(20))
        await asyncio.to_thread(rabbit.stop)
        with pytest.raises(TransportUnavailable):
            await work.aenqueue(99)
        await asyncio.to_thread(rabbit.start)
        gate.set()
        await work.aenqueue(20)
        await until(lambda: {*ran} == {*range(21)})
        assert worker.health().alive
    assert await broker.dead("mail", 10) == []
    await app.aclose()


async def test_a_worker_is_killed(broker: RabbitMQ, rabbit: RabbitServer, tmp_path: Path) -> None:
    """Another one has its jobs at once, and knows that a worker was lost with them."""
    (tmp_path / "shop.py").write_text(
        "import asyncio, pathlib\n"
        "from mutirao import Mutirao\n"
        "from mutirao.transports.rabbitmq import RabbitMQ\n"
        f"broker = RabbitMQ({rabbit.url()!r}, prefix='killed')\n"
        "app = Mutirao('sqlite:///none.db', transports={'mail': broker})\n"
        "@app.task(queue='mail')\n"
        "async def work(job_number: int) -> None:\n"
        "    print('started', flush=True)\n"
        "    await asyncio.sleep(3600)\n"
    )
    app = Mutirao(transports={"mail": broker})
    ran = asyncio.Event()

    @app.task(queue="mail")
    async def work(job_number: int) -> None:
        ran.set()

    await work.aenqueue(1)
    command = [sys.executable, "-m", "mutirao", "worker", "shop:app", "-q", "mail"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdout=PIPE, env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"started\n"
    finally:
        process.kill()
        await process.communicate()
    async with app.worker(queues=["mail"]):
        await until(ran.is_set)
    await app.aclose()
