"""Workers that are killed while they deliver: each webhook arrives, by one id."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import defaultdict
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from standardwebhooks import Webhook

from tests.integration.webhooks.test_deliveries import (
    SECRET,
    ended,
    parsed,
    publish,
    put,
    rows,
    shop,
)
from tests.support.waiting import until
from tests.support.webhooks import OK, Peer, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DELIVERIES = 60
AT = (5, 20, 40)  # so many requests, after which a worker is killed
ROOT = Path(__file__).parents[3]
HISTORY = """
SELECT j.id,
    (SELECT count(*) FROM mutirao_attempt a WHERE a.job = j.id AND a.outcome = 'succeeded'),
    (SELECT count(*) FROM mutirao_webhook_attempt w WHERE w.job = j.id AND w.status = 200)
FROM mutirao_job j WHERE j.task = 'mutirao.webhook'
"""
LOST = "SELECT count(*) FROM mutirao_attempt WHERE outcome = 'lost'"


class Killer:
    """Kills the worker at some requests: before it is answered, or just after."""

    def __init__(self) -> None:
        self.worker: int | None = None
        self.killed = 0
        self.over = False

    async def behave(self, peer: Peer) -> None:
        """Answer each request, but for those at which the worker dies before."""
        while True:
            await peer.request()
            due = self.killed < len(AT) and len(peer.server.requests) >= AT[self.killed]
            if due and self.killed % 2:
                await peer.say(OK)
            if due and self.worker is not None:
                os.kill(self.worker, signal.SIGKILL)
                self.worker, self.killed = None, self.killed + 1
                return
            await peer.say(OK)


@pytest.mark.repeats("mysql", "sqlite", decided="tests/conformance")
async def test_killed_again_and_again(migrated_url: str) -> None:
    """Whoever comes next sends what is not known to have arrived; nothing is missing.

    All attempts of a delivery have one id, and what was cut off is in history as lost.
    """
    killer = Killer()
    async with shop(migrated_url) as app, serving(killer.behave) as server:
        await put(app, "erp", server)
        await publish(app, DELIVERIES)
        async with workers(migrated_url, killer):
            await until(lambda: len(server.requests) >= DELIVERIES)
            await until(ended(app, "succeeded", DELIVERIES))
    assert killer.killed == len(AT)
    ids = defaultdict(set)
    for headers, body in map(parsed, server.requests):
        ids[Webhook(SECRET).verify(body, headers)["data"]["order_id"]].add(headers["webhook-id"])
    assert [*sorted(ids)] == [*range(1, DELIVERIES + 1)]
    assert {len(each) for each in ids.values()} == {1}
    assert len({id for each in ids.values() for id in each}) == DELIVERIES
    kept = await asyncio.to_thread(rows, migrated_url, HISTORY)
    assert len(kept) == DELIVERIES
    assert {(succeeded, answers > 0) for _, succeeded, answers in kept} == {(1, True)}
    [(lost,)] = await asyncio.to_thread(rows, migrated_url, LOST)
    assert lost >= len(AT)


def succeed(process: subprocess.Popen[str], killer: Killer) -> None:
    """Start a worker, and another one whenever it was killed, until it is over."""
    assert process.stdin is not None
    assert process.stdout is not None
    while not killer.over:
        print(file=process.stdin, flush=True)
        killer.worker = int(process.stdout.readline())
        assert int(process.stdout.readline()) == -signal.SIGKILL
    process.stdin.close()


@asynccontextmanager
async def workers(url: str, killer: Killer) -> AsyncIterator[None]:
    """Let one worker after the other deliver; the killer learns which."""
    command = [sys.executable, "-m", "tests.integration.webhooks.dying", url]
    pipe = subprocess.PIPE
    start = partial(subprocess.Popen, command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
    with await asyncio.to_thread(start) as process:
        succession = asyncio.create_task(asyncio.to_thread(succeed, process, killer))
        try:
            yield
        finally:
            killer.over = True
            if killer.worker is not None:
                os.kill(killer.worker, signal.SIGKILL)
            await succession
