"""The example with Django works as a user runs it: its own tests, and its server with a worker."""

from __future__ import annotations

import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.examples import EXAMPLES
from tests.support.killing import Shop
from tests.support.served import Served
from tests.support.waiting import wait_until

SERVE = ("manage.py", "runserver", "--noreload", "127.0.0.1:PORT")
# So that jobs of a worker that was killed run again within two seconds.
WORKER = ("manage.py", "mutirao", "worker", "-c", "2", "--heartbeat", "0.5", "--expiry", "1.5")
ITEMS = ["kite", "kite", "lantern"] * 20


@pytest.mark.parametrize("name", sorted(each.name for each in EXAMPLES.glob("with_*")))
def test_it_is_short(name: str) -> None:
    """So that somebody reads them: each application, and all files of an example together."""
    found = [len(each.read_text().splitlines()) for each in (EXAMPLES / name).rglob("*.py")]
    assert 0 < sum(found) <= 150
    assert max(found) <= (150 if name == "with_webhooks" else 80)


@pytest.fixture
def kiosk(tmp_path: Path) -> Served:
    """The example on an SQLite file."""
    return Served("with_django", tmp_path, KIOSK_FILE=f"{tmp_path}/kiosk.db")


def test_its_own_tests_pass(kiosk: Served) -> None:
    """In a TestCase, which is rolled back, on a database that Django has made."""
    assert "Ran 1 test" in kiosk.run("manage.py", "test")
    assert "No changes" in kiosk.run("manage.py", "makemigrations", "--check")


@pytest.mark.repeats(decided="tests/acceptance/test_with_fastapi.py")
def test_each_order_has_one_receipt(kiosk: Served, tmp_path: Path) -> None:
    """By workers beside the server, one of which is killed while requests run.

    One that was rolled back has none; a receipt that was sent twice would count two.
    """
    kiosk.run("manage.py", "migrate")
    with kiosk.running(*SERVE), ThreadPoolExecutor(3) as clients:
        wait_until(lambda: kiosk.answers("/orders"))
        with kiosk.running(*WORKER) as worker:
            asked = clients.map(lambda item: kiosk.ask("/orders", {"item": item})[0], ITEMS)
            wait_until(lambda: kiosk.ask("/orders")[1]["receipts"] > 0)
            worker.kill()
            worker.wait()
        had = ITEMS.count("kite")
        assert Counter(asked) == {201: had, 402: len(ITEMS) - had}
        with kiosk.running(*WORKER):
            kiosk.until("/orders", {"orders": had, "receipts": had})
            wait_until(lambda: states(tmp_path / "kiosk.db") == {"succeeded": had})


@pytest.mark.repeats(decided="tests/acceptance/test_with_fastapi.py")
def test_on_postgresql(postgresql_url: str, tmp_path: Path) -> None:
    """The same with two workers, the tables of jobs by Django's migrations, and more orders."""
    url = make_url(postgresql_url)
    there = {"HOST": url.host, "PORT": url.port, "USER": url.username, "DATABASE": url.database}
    of_libpq = {f"PG{name}": str(each) for name, each in there.items()}
    kiosk = Served("with_django", tmp_path, **of_libpq, PGPASSWORD=url.password or "")
    kiosk.run("manage.py", "migrate")
    with kiosk.running(*SERVE):
        Shop(kiosk, postgresql_url).survives("manage.py", "mutirao", "worker")


def states(file: Path) -> dict[str, int]:
    """Return how many jobs there are in each state."""
    with closing(sqlite3.connect(file)) as db:
        return dict(db.execute("SELECT state, count(*) FROM mutirao_jobs GROUP BY state"))
