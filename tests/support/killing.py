"""A shop among the examples, whose workers are killed while requests run, and which is counted."""

from __future__ import annotations

import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import make_url

from tests.support.served import Served
from tests.support.waiting import wait_until

ORDERS = [True, True, False] * 20  # whether what is ordered can be had
HAD = ORDERS.count(True)
# So that jobs of a worker that was killed run again within two seconds.
QUICK = ("--processes", "2", "-c", "4", "--heartbeat", "0.5", "--expiry", "1.5")


class Words(NamedTuple):
    """How a shop is asked: its path, the name of what is ordered, and how what it has is counted.

    `refused` is what cannot be had, and the status that says so.
    """

    path: str = "/orders"
    name: str = "item"
    had: str = "kite"
    refused: tuple[str, int] = ("lantern", 402)
    orders: str = "orders"
    done: str = "receipts"


class Shop:
    """A web server that takes orders by POST, and counts them by GET.

    Parameters:
        served: its program, which runs.
        url: the database, on PostgreSQL, with Mutirão's tables.
        words: how it is asked.
    """

    def __init__(self, served: Served, url: str, words: Words | None = None) -> None:
        self._served, self._words = served, words or Words()
        plain = make_url(url).set(drivername="postgresql")
        self._dsn = plain.render_as_string(hide_password=False)
        self._killed = set[int]()

    def survives(self, *worker: str) -> None:
        """Order while workers are killed; then what each order wants is done exactly once."""
        words, half = self._words, len(ORDERS) // 2
        wait_until(lambda: self._served.answers(words.path))
        with (
            psycopg.connect(self._dsn, autocommit=True) as database,
            self._served.running(*worker, *QUICK),
            ThreadPoolExecutor(4) as clients,
        ):
            wait_until(lambda: len(_workers(database)) == 2)
            statuses: list[int] = []
            for part in (ORDERS[:half], ORDERS[half:]):
                asked = clients.map(self._order, part)
                wait_until(lambda: self._served.ask(words.path)[1][words.done] > 0)
                self._kill_one(database)
                statuses += asked
            expected = {201: HAD, words.refused[1]: len(ORDERS) - HAD}
            assert Counter(statuses) == expected, Counter(statuses)
            self._served.until(words.path, {words.orders: HAD, words.done: HAD})
            assert _succeeded(database) == HAD

    def _order(self, had: bool) -> int:
        words = self._words
        ordered = {words.name: words.had if had else words.refused[0]}
        return self._served.ask(words.path, ordered)[0]

    def _kill_one(self, database: psycopg.Connection[Any]) -> None:
        """Kill a worker; wait until the supervisor has started another one."""
        workers = _workers(database)
        killed = min(workers.keys() - self._killed)  # whose rows may still be there
        self._killed.add(killed)
        os.kill(workers[killed], signal.SIGKILL)
        wait_until(lambda: len(_workers(database).keys() - self._killed) == 2)


def _workers(database: psycopg.Connection[Any]) -> dict[int, int]:
    """Return the process of each registered worker."""
    rows = database.execute("SELECT id, name FROM mutirao_workers").fetchall()
    return {id: int(name.rpartition(":")[2]) for id, name in rows}


def _succeeded(database: psycopg.Connection[Any]) -> int:
    """Return how many jobs have succeeded."""
    found = database.execute("SELECT count(*) FROM mutirao_jobs WHERE state = 'succeeded'")
    return int(found.fetchall()[0][0])
