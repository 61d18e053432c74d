"""`sqs`: messages through the transport for SQS, beside a loop of boto3 with the same batches.

Both have the same server, and take turns. Without one of your own it is moto's, in a process of its
own, which costs more than all that is measured here: the ratio is what counts.
"""

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any
from uuid import uuid4

from boto3.session import Session

from benchmarks.figures import Figures
from mutirao.model.brokers.message import Ack, Delivery, Message
from mutirao.transports.sqs import SQS
from tests.support.servers import free_port

QUEUE = "bench"
ARGS = '{"order": 7, "note": "' + "x" * 90 + '"}'
BATCH = 10
START_LIMIT = 120.0  # seconds
CREDENTIALS = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """What one way did: messages a second that it sent and worked off, requests for each."""

    sent: float
    done: float
    requests_of_sending: float
    requests_of_working: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsResult:
    """Ours and the bare loop's, in pairs of rounds."""

    ours: Sequence[Way]
    bare: Sequence[Way]

    def figures(self) -> Figures:
        """Return them, with what they are."""

        def of(ways: Sequence[Way], of: Callable[[Way], float]) -> float:
            return median(of(each) for each in ways)

        pairs = list(zip(self.ours, self.bare, strict=True))
        return {
            "sent/s": of(self.ours, lambda way: way.sent),
            "sent/s by bare boto3": of(self.bare, lambda way: way.sent),
            "ratio of sending": median(ours.sent / bare.sent for ours, bare in pairs),
            "done/s": of(self.ours, lambda way: way.done),
            "done/s by bare boto3": of(self.bare, lambda way: way.done),
            "ratio of receiving and deleting": median(o.done / b.done for o, b in pairs),
            "requests to send a message": of(self.ours, lambda way: way.requests_of_sending),
            "requests to work one off": of(self.ours, lambda way: way.requests_of_working),
        }


class Requests:
    """A session of boto3 that counts what it asks for."""

    def __init__(self) -> None:
        self.session = Session(region_name="us-east-1", **CREDENTIALS)
        self.number = 0
        self.session.events.register("before-send.sqs.*", self._count)

    def taken(self) -> int:
        """Return the number since the last call."""
        number, self.number = self.number, 0
        return number

    def _count(self, **_: object) -> None:
        self.number += 1


async def sqs(*, endpoint: str | None, jobs: int, rounds: int) -> SqsResult:
    """Measure the transport and the bare loop in turn.

    Parameters:
        endpoint: the URL of a server; None starts moto's.
        jobs: messages of a round.
        rounds: how many of each.
    """
    async with _server(endpoint) as url:
        ours, bare = [], []
        await _ours(url, BATCH)  # what is done once only
        for _ in range(rounds):
            bare.append(await asyncio.to_thread(_bare, url, jobs))
            ours.append(await _ours(url, jobs))
    return SqsResult(ours=ours, bare=bare)


async def _ours(url: str, jobs: int) -> Way:
    counted = Requests()
    pattern = f"{uuid4().hex}-{{queue}}"
    transport = SQS(pattern, endpoint_url=url, session=counted.session, wait=1)
    await transport.declare([QUEUE])
    messages = [Message(id=uuid4().hex, task="t", args=ARGS, queue=QUEUE) for _ in range(jobs)]
    counted.taken()
    began = perf_counter()
    for start in range(0, jobs, BATCH):
        assert not any(await transport.publish(messages[start : start + BATCH]))
    sent, of_sending = perf_counter() - began, counted.taken()
    began, done = perf_counter(), 0
    async with transport.consumer(QUEUE, 4 * BATCH, _lost) as consumer:
        while done < jobs:
            came = await consumer.receive(BATCH)
            assert not any(await consumer.settle([Ack(each) for each in came]))
            done += len(came)
        worked, of_working = perf_counter() - began, counted.taken()
    await transport.aclose()
    return _way(jobs, sent, worked, of_sending, of_working)


def _bare(url: str, jobs: int) -> Way:
    counted = Requests()
    client = counted.session.client("sqs", endpoint_url=url)
    queue = client.create_queue(QueueName=uuid4().hex)["QueueUrl"]
    counted.taken()
    began = perf_counter()
    for start in range(0, jobs, BATCH):
        entries = [{"Id": str(n), "MessageBody": ARGS} for n in range(min(BATCH, jobs - start))]
        client.send_message_batch(QueueUrl=queue, Entries=entries)
    sent, of_sending = perf_counter() - began, counted.taken()
    began, done = perf_counter(), 0
    while done < jobs:
        came = client.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=BATCH, WaitTimeSeconds=1, VisibilityTimeout=30
        ).get("Messages", [])
        entries = [
            {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(came)
        ]
        client.delete_message_batch(QueueUrl=queue, Entries=entries)
        done += len(came)
    worked, of_working = perf_counter() - began, counted.taken()
    client.close()
    return _way(jobs, sent, worked, of_sending, of_working)


def _way(jobs: int, sent: float, worked: float, of_sending: int, of_working: int) -> Way:
    return Way(
        sent=jobs / sent,
        done=jobs / worked,
        requests_of_sending=of_sending / jobs,
        requests_of_working=of_working / jobs,
    )


def _lost(lost: Sequence[Delivery]) -> None:
    raise AssertionError(f"{len(lost)} messages were lost")


@asynccontextmanager
async def _server(endpoint: str | None) -> AsyncIterator[str]:
    if endpoint is not None:
        yield endpoint
        return
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = await asyncio.to_thread(lambda: subprocess.Popen(command, **quiet))
    try:
        async with asyncio.timeout(START_LIMIT):
            while not await asyncio.to_thread(_answers, url):
                assert server.poll() is None, "moto's server has ended: is moto[server] installed?"
                await asyncio.sleep(0.1)
        yield url
    finally:
        server.kill()
        await asyncio.to_thread(server.wait)


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{url}/moto-api/", timeout=5) as answer:  # noqa: S310
        return bool(answer.status == 200)
    return False
