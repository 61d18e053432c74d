"""A shop in Django whose workers are killed each second: each order is paid once.

By hand with as many orders as somebody likes: `SHOP_ORDERS=20000`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from sqlalchemy import make_url

from tests.support.waiting import wait_until

pytestmark = pytest.mark.repeats(decided="tests/integration/integrations/test_django_backend.py")

ORDERS = int(os.environ.get("SHOP_ORDERS", "200"))
WORKERS = LIFE = 3  # so many, which live so many seconds: one is killed each second
SHOP = "tests.integration.integrations.django_shop"
RUN = f"""
import sys, django
django.setup()
from {SHOP} import main
main(sys.argv[1], {ORDERS})
"""
SERVE = [
    *(sys.executable, "-m", "mutirao", "worker", "mutirao.integrations.django.standalone:app"),
    *("--heartbeat", "0.5", "--expiry", "2.5", "--concurrency", "4", "--poll", "0.5"),
]


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "mysql+mysqldb"])
def test_each_order_is_paid_once(request: pytest.FixtureRequest, driver: str) -> None:
    """Receipts are there, too; what was refused after it was enqueued never was."""
    url = make_url(request.getfixturevalue(f"migrated_{driver.partition('+')[0]}_url"))
    project = {
        "SHOP_URL": url.set(drivername=driver).render_as_string(hide_password=False),
        "SHOP_MODULES": "django_shop",
        "DJANGO_SETTINGS_MODULE": "tests.integration.integrations.django_settings",
    }
    environment = {**os.environ, **project}

    def said(command: str) -> str:
        return subprocess.run(
            [sys.executable, "-c", RUN, command],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ).stdout.strip()

    said("tables")
    taken = ORDERS - ORDERS // 10
    with killed_each_second(environment):
        said("orders")
        wait_until(lambda: said("count").split()[3] == "0", deadline=90 + ORDERS / 20)
    assert said("count") == f"{taken} {taken} {taken} 0 0"


@contextmanager
def killed_each_second(environment: dict[str, str]) -> Iterator[None]:
    """Keep workers running, each of which is killed a while after it has started."""
    stop = Event()
    threads = [Thread(target=lives, args=(environment, stop)) for _ in range(WORKERS)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in threads:
            each.join()


def lives(environment: dict[str, str], stop: Event) -> None:
    """Run one worker after another, until told to stop."""
    while not stop.is_set():
        with subprocess.Popen(SERVE, env=environment, stderr=subprocess.PIPE, text=True) as worker:
            assert worker.stderr is not None
            for line in worker.stderr:
                if " started" in line:
                    break
            stop.wait(LIFE)
            worker.kill()
