"""Twenty feeds are pulled again and again, each with its period, by workers that share RabbitMQ.

There is no database. Some pulls meet errors: what heals by itself is tried again, a feed that has
closed stops its loop, and one that nobody can read is put aside for those who write the code.
"""

import asyncio
import json
import os
import time
from pathlib import Path

from mutirao import Cancel, Job, Mutirao, Retry
from mutirao.transports.rabbitmq import RabbitMQ

LOG = Path(os.environ["FEEDS_LOG"])
VERSION = int(os.environ.get("FEEDS_VERSION", "1"))
FEEDS, PERIODS = 20, (1.0, 2.0, 3.0)  # seconds
CLOSED, BROKEN, FLAKY = "feed-03", "feed-07", 4  # every fourth feed has a bad connection
LASTS = 0.3  # seconds of a pull
QUEUE = "feeds"

broker = RabbitMQ(os.environ["FEEDS_BROKER"], prefix=os.environ["FEEDS_PREFIX"])
app = Mutirao("sqlite:///unused.db", transports={QUEUE: broker})


def period_of(number: int) -> float:
    """Return how often a feed is pulled, in seconds."""
    return PERIODS[number % len(PERIODS)]


@app.task(queue=QUEUE, retry=Retry.fixed(2, interval=0.2))
async def pull(job: Job, feed: str, number: int) -> None:
    """Pull a feed. Version 2 can read what version 1 could not."""
    note("began", feed, job)
    try:
        await asyncio.sleep(LASTS)
        if feed == CLOSED:
            raise Cancel("the feed has closed")
        if feed == BROKEN and VERSION == 1:
            raise ValueError("no such version of the format")
        if number % FLAKY == 0 and job.attempt == 1:
            raise ConnectionError("the feed does not answer")
    except BaseException as error:
        note(type(error).__name__, feed, job)
        raise
    note("ended", feed, job)


def names() -> list[str]:
    """Return the names of the feeds, which are those of their schedules."""
    return [f"feed-{number:02}" for number in range(FEEDS)]


for position, name in enumerate(names()):
    said = {"feed": name, "number": position}
    app.schedule(every=period_of(position), name=name, args=said)(pull)


def note(what: str, feed: str, job: Job) -> None:
    """Write a line for whoever counts afterwards."""
    told = {"what": what, "feed": feed, "tick": job.metadata["tick"], "id": str(job.id)}
    about = {"attempt": job.attempt, "pid": os.getpid(), "version": VERSION, "at": time.time()}
    with LOG.open("a") as log:
        log.write(json.dumps(told | about) + "\n")
