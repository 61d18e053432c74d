"""Workers that fan out and deliver webhooks until they are killed, one for each line that is read.

Each is a fork of this process, which has no threads and no connections. It says of each its id, and
when it has ended.
"""

from __future__ import annotations

import asyncio
import os
import sys

from mutirao import Mutirao
from mutirao.webhooks import WebhookSettings

SETTINGS = WebhookSettings(schemes=["http"], ports=range(1024, 65_536), networks=["127.0.0.0/8"])
EXPIRY = 1.0  # seconds until the next one has the jobs of one that was killed


async def deliver(url: str) -> None:
    """Deliver until the end."""
    app = Mutirao(url)
    app.topic("order.placed")
    terms = {"poll": 0.05, "heartbeat": EXPIRY / 4, "expiry": EXPIRY, "log_jobs": "failures"}
    async with app.worker(webhooks=SETTINGS, **terms):  # type: ignore[arg-type]
        await asyncio.Event().wait()


def main(url: str) -> None:
    """Start one for each line on the standard input, and wait for its end."""
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(deliver(url))
        print(child, flush=True)  # noqa: T201
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
