"""What a broker refuses until people mend it: an error that is told, seen, and no traceback."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from mutirao import Mutirao
from mutirao.transports.rabbitmq import RabbitMQ
from tests.support.rabbitmq import RabbitServer, emptied
from tests.support.waiting import until

SHOP = """
from mutirao import Mutirao
from mutirao.transports.rabbitmq import RabbitMQ

app = Mutirao("sqlite:///jobs.db", transports={"mail": RabbitMQ(URL, prefix="undeclared")})

@app.task(queue="mail")
def send(n: int) -> None: ...
"""


def called(tmp_path: Path, url: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command of a shop whose broker is at a URL."""
    (tmp_path / "shop.py").write_text(SHOP.replace("URL", repr(url)))
    whole = [sys.executable, *command]
    return subprocess.run(whole, cwd=tmp_path, capture_output=True, text=True, timeout=250)


@pytest.mark.parametrize(
    ("who", "status", "said"),
    [(None, 3, "transports declare"), ("guest:wr0ng", 4, "correct the URL, or the user's rights")],
)
def test_a_worker_that_cannot_begin(
    who: str | None, status: int, said: str, rabbit: RabbitServer, tmp_path: Path
) -> None:
    """It ends as one does whose database has no tables, or lets nobody in."""
    url = rabbit.url() if who is None else rabbit.url(who)
    ended = called(tmp_path, url, "-m", "mutirao", "worker", "shop:app", "-q", "mail")
    errors = [line for line in ended.stderr.splitlines() if " ERROR " in line]
    assert ended.returncode == status, ended.stderr
    assert len(errors) == 1, ended.stderr
    assert said in errors[0]
    assert "Traceback" not in ended.stderr
    assert "wr0ng" not in ended.stderr


def test_many_jobs_to_an_exchange_that_is_not_there(rabbit: RabbitServer, tmp_path: Path) -> None:
    """One error, and no line of the client."""
    publishes = """
import shop
from mutirao.errors import TransportMismatch
try:
    shop.app.enqueue_many(shop.send.job(n) for n in range(500))
except TransportMismatch as error:
    print(error)
"""
    ended = called(tmp_path, rabbit.url(), "-c", publishes)
    assert ended.stderr == ""
    assert "500 of 500 jobs were not published" in ended.stdout
    assert "transports declare" in ended.stdout


async def test_one_of_several_queues(
    rabbit: RabbitServer, lite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are served, and health tells what is to be mended until it is."""
    broker = RabbitMQ(rabbit.url(), prefix="unmended")
    app = Mutirao(lite_url, transports={"mail": broker, "video": broker})
    ran: list[int] = []
    send = app.task(queue="mail", name="send")(lambda n: ran.append(n))
    serving = app.worker(queues=["mail", "video"])
    async with emptied(broker, rabbit, "mail"), serving as worker:
        await send.aenqueue(1)
        await until(lambda: ran and worker.health().unmended)
        health = worker.health()
        assert health.alive
        [said] = health.unmended
        assert "'video'" in said
        assert "transports declare" in said
        await broker.declare(["video"])
        await until(lambda: not worker.health().unmended)
    ours = [each for each in caplog.records if each.name.startswith("mutirao")]
    errors = [each for each in ours if each.levelno == logging.ERROR]
    assert len(errors) == 1
    await app.aclose()
    app.close()
