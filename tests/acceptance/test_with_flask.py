"""The example with Flask works as a user runs it: under gunicorn, a worker in each process."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.killing import Shop, Words
from tests.support.served import Served
from tests.support.waiting import wait_until

SERVE = ("gunicorn", "-c", "gunicorn_config.py", "-b", "127.0.0.1:PORT", "bakery:web")


@pytest.mark.repeats(decided="tests/integration/frameworks/test_flask.py")
def test_each_order_is_baked_once(tmp_path: Path) -> None:
    """Also one whose first attempt fails; one that was rolled back is not."""
    bakery = Served("with_flask", tmp_path, SHOP_URL=f"sqlite:///{tmp_path}/bakery.db")
    bakery.run("flask", "--app", "bakery", "mutirao", "migrate")
    bakery.run("bakery.py")
    with bakery.running(*SERVE):
        wait_until(lambda: bakery.answers("/health"))
        wait_until(lambda: workers(tmp_path) == 2)
        asked = [bakery.ask("/loaves", {"kind": kind})[0] for kind in ("rye", "cake", "burnt")]
        assert asked == [201, 422, 201]
        bakery.until("/loaves", {"loaves": 2, "baked": 2})
        assert bakery.ask("/health") == (200, {"alive": True, "reason": None})
    assert workers(tmp_path) == 0


@pytest.mark.repeats(decided="tests/acceptance/test_with_fastapi.py")
def test_workers_beside_it_are_killed(migrated_postgresql_url: str, tmp_path: Path) -> None:
    """While requests run: then each loaf was baked once, and no cake."""
    bakery = Served("with_flask", tmp_path, SHOP_URL=migrated_postgresql_url)
    bakery.run("bakery.py")
    words = Words("/loaves", "kind", "rye", ("cake", 422), "loaves", "baked")
    with bakery.running("gunicorn", "-w", "2", "-b", "127.0.0.1:PORT", "bakery:web"):
        shop = Shop(bakery, migrated_postgresql_url, words)
        shop.survives("flask", "--app", "bakery", "mutirao", "worker")


def workers(home: Path) -> int:
    """Return how many are registered."""
    with closing(sqlite3.connect(home / "bakery.db")) as db:
        return int(db.execute("SELECT count(*) FROM mutirao_workers").fetchone()[0])
