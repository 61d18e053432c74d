"""An application of which each dashboard has something to show."""

from __future__ import annotations

import os

from mutirao import Limit, Mutirao, Retry

app = Mutirao(os.environ["WATCHED_DATABASE"])
paid = app.topic("order.paid", dict)


@app.task(queue="mail", limit=Limit(50))
async def send(number: int) -> None:
    """Succeed."""


@app.task(queue="reports", retry=Retry.fixed(2, interval=0.1))
def report(number: int) -> None:
    """Fail, now and then."""
    if number % 3 == 0:
        raise ValueError("no data")


@app.subscriber("thanks", topic=paid, queue="mail")
async def thank(order: dict[str, int]) -> None:
    """Be told of what is published."""


@app.schedule("0 3 * * *")
@app.task(queue="mail")
async def nightly() -> None:
    """Wait for the night."""


async def fill(number: int) -> None:
    """Enqueue so many jobs of each of two tasks, publish an event, and have an endpoint."""
    jobs = [each.job(count) for count in range(number) for each in (send, report)]
    await app.aenqueue_many(jobs)
    await paid.apublish({"order": 7})
