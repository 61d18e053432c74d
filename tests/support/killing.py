"""A shop among the examples, whose workers are killed while requests run, and which is counted."""

from __future__ import annotations

import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from sqlalchemy import make_url

from tests.support.served import Served
from tests.support.waiting import wait_until

ITEMS = ["kite", "kite", "lantern"] * 20  # what is ordered; nobody can pay for a lantern
PAID = len(ITEMS) * 2 // 3
KILLS = 2
# So that jobs of a worker that was killed run again within two seconds.
QUICK = ("--processes", "2", "-c", "4", "--heartbeat", "0.5", "--expiry", "1.5")


class Shop:
    """A web server with `POST /orders` and `GET /orders`.

    Parameters:
        served: its program, which runs.
        url: the database, on PostgreSQL, with Mutirão's tables.
    """

    def __init__(self, served: Served, url: str) -> None:
        self._served = served
        plain = make_url(url).set(drivername="postgresql")
        self._dsn = plain.render_as_string(hide_password=False)

    def survives(self, *worker: str) -> None:
        """Order while workers are killed; then each order has exactly one receipt."""
        wait_until(lambda: self._served.answers("/orders"))
        with (
            psycopg.connect(self._dsn, autocommit=True) as database,
            self._served.running(*worker, *QUICK),
            ThreadPoolExecutor(4) as clients,
        ):
            wait_until(lambda: len(_workers(database)) == 2)
            half = len(ITEMS) // 2
            statuses: list[int] = []
            for part in (ITEMS[:half], ITEMS[half:]):
                asked = clients.map(lambda item: self._order(item), part)
                wait_until(lambda: self._served.ask("/orders")[1]["receipts"] > 0)
                before = _workers(database)
                killed = min(before)
                os.kill(before[killed], signal.SIGKILL)
                statuses += asked
                # The supervisor has started another one.
                wait_until(lambda k=killed: len({*_workers(database)} - {k}) == 2)  # type: ignore[misc]
            assert Counter(statuses) == {201: PAID, 402: len(ITEMS) - PAID}, Counter(statuses)
            self._served.until("/orders", {"orders": PAID, "receipts": PAID})
            [(done,)] = database.execute(
                "SELECT count(*) FROM mutirao_jobs WHERE state = 'succeeded'"
            ).fetchall()
            assert done == PAID

    def _order(self, item: str) -> int:
        return self._served.ask("/orders", {"item": item})[0]


def _workers(database: psycopg.Connection[Any]) -> dict[int, int]:
    """Return the process of each registered worker."""
    rows = database.execute("SELECT id, name FROM mutirao_workers").fetchall()
    return {id: int(name.rpartition(":")[2]) for id, name in rows}
