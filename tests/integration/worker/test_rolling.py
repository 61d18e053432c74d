"""Two versions of an application at once: the old one gives way.

What of it depends on the database is `Store.deployed`, which the contract of stores asks of each.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Unpack

import pytest

from mutirao import Mutirao
from mutirao.engine.settings import WorkerTerms
from mutirao.errors import ConfigurationError
from mutirao.transports.memory import MemoryTransport
from mutirao.transports.rabbitmq import RabbitMQ
from mutirao.transports.sqs import SQS
from tests.support.engine import EmbeddedWorker
from tests.support.rabbitmq import RabbitServer, emptied
from tests.support.sqs_faults import FakeSqs
from tests.support.waiting import until

OLD = """
import asyncio, pathlib
from mutirao import Mutirao
from mutirao.transports.rabbitmq import RabbitMQ

app = Mutirao({url!r}, transports={{"mail": RabbitMQ({rabbit!r}, prefix="rolling")}})

def note(n):
    with open("ran", "a") as file:
        file.write(f"{{n}}\\n")

@app.task(queue={queue!r})
async def work(n: int) -> None:
    note(n)
    if n == 0:
        print("holds", flush=True)
        while not pathlib.Path("release").exists():
            await asyncio.sleep(0.01)
        note("released")
"""


def quick(app: Mutirao, **terms: Unpack[WorkerTerms]) -> EmbeddedWorker:
    """Return a worker that soon tells of itself."""
    terms |= {"heartbeat": 0.1}
    return app.worker(**terms)


def running(process: Process) -> bool:
    """Return whether it has not ended."""
    return process.returncode is None


@asynccontextmanager
async def old_worker(folder: Path) -> AsyncIterator[Process]:
    """Run one of version 1."""
    command = [sys.executable, "-m", "mutirao", "worker", "shop:app", "-q", "mail", "-c", "2"]
    command += ["--app-version", "1", "--drain-on-new-version", "--heartbeat", "0.1"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=PIPE, stderr=PIPE,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    try:
        yield process
    finally:
        if running(process):
            process.kill()
        await process.wait()


@pytest.mark.parametrize("alone", [False, True], ids=["SQL", "RabbitMQ"])
async def test_both_at_once(
    alone: bool, lite_url: str, rabbit: RabbitServer, tmp_path: Path
) -> None:
    """The old one finishes what it holds, the new one has all else; each job runs once."""
    broker = RabbitMQ(rabbit.url(), prefix="rolling")
    app = Mutirao(lite_url, transports={"mail": broker} if alone else {})
    ran: list[int] = []
    work = app.task(queue="mail", name="work")(lambda n: ran.append(n))

    def theirs() -> list[str]:
        return (tmp_path / "ran").read_text().split() if (tmp_path / "ran").exists() else []

    program = OLD.format(url=lite_url, rabbit=rabbit.url(), queue="mail")
    (tmp_path / "shop.py").write_text(
        program if alone else program.replace('{"mail": RabbitMQ', '{"other": RabbitMQ')
    )
    async with emptied(broker, rabbit, "mail"), old_worker(tmp_path) as old:
        await app.aenqueue_many(work.job(n) for n in range(20))
        assert old.stdout is not None
        assert old.stderr is not None
        assert await old.stdout.readline() == b"holds\n"
        async with quick(app, queues=["mail"], app_version="shop:app@2"):
            said = b""
            while b"has taken over from shop:app@1" not in said:
                said = await old.stderr.readline()
                assert said
            await app.aenqueue_many(work.job(n) for n in range(20, 40))
            # Some may have come to the old one between its message and its stop.
            await until(lambda: {*map(str, ran), *theirs()} >= {*map(str, range(20, 40))})
            assert running(old)
            (tmp_path / "release").touch()
            await old.communicate()
            assert old.returncode == 0
            await until(lambda: len(ran) + len(theirs()) == 41)
    assert "released" in theirs()
    assert Counter([*map(str, ran), *theirs()]) == Counter([*map(str, range(40)), "released"])
    await app.aclose()
    app.close()


async def test_all_that_it_serves(lite_url: str) -> None:
    """A later version that serves a part does not end it, two of them together do."""
    broker = MemoryTransport()
    await broker.declare(["mail"])
    app = Mutirao(lite_url, transports={"mail": broker})
    app.task(queue="mail", name="send")(lambda: None)
    app.task(name="encode")(lambda: None)
    old = quick(app, app_version="shop@2", drain_on_new_version=True)
    async with old:
        deploys = old._worker._shared.deploys  # type: ignore[union-attr]
        async with quick(app, app_version="shop@3", queues=["default"]):
            await until(lambda: any(deploys._stored.values()))
            assert not deploys.outdated.is_set()
            async with quick(app, app_version="shop@3", queues=["mail"]):
                await until(lambda: not old.health().alive)
    assert old.health().reason == "it has been stopped"
    await app.aclose()
    app.close()


async def test_who_cannot_hear(lite_url: str) -> None:
    """SQS tells workers nothing of each other."""
    fake = FakeSqs()
    app = Mutirao(lite_url, transports={"mail": SQS(clients=lambda: (fake, fake))})
    terms: WorkerTerms = {"app_version": "1", "drain_on_new_version": True}
    with pytest.raises(ConfigurationError, match=r"by SQS .* workers hear nothing of each other"):
        await app.worker(**terms | {"queues": ["mail"]}).__aenter__()
