"""The demonstration is the first thing that people run: it has to keep its promise everywhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.clones import Clones
from tests.support.examples import EXAMPLES
from tests.support.mariadb import MysqlServer

LIMIT = 280.0  # seconds, with the installation, on a busy machine
DEMO = EXAMPLES / "shop" / "demo.py"


def figure(output: str, row: str) -> int:
    """Return the number in a row of the table at the end."""
    found = re.search(rf"{row}[^\d\n]*(\d+)", output)
    assert found, f"{row!r} is not in:\n{output}"
    return int(found[1])


def check(output: str) -> None:
    """Hold the table against what the shop does: 200 orders, every tenth one is rolled back."""
    assert "Every committed order has exactly one receipt" in output
    assert "is killed with SIGKILL" in output
    assert figure(output, "Orders committed") == 180
    assert figure(output, "Orders rolled back") == 20
    assert figure(output, "Receipts") == 179
    assert figure(output, "whose job died") == 1
    assert figure(output, "failed and were retried") > 10
    assert figure(output, "lost with the killed worker") > 0


@pytest.mark.repeats(decided="tests/acceptance/test_demo.py")
def test_on_sqlite(clones: Clones) -> None:
    """Without an argument it works in a file of its own; a fresh clone installs what it needs."""
    check(clones.run("make demo", LIMIT))


def test_with_the_dashboard(tmp_path: Path) -> None:
    """It is open meanwhile, and stays until Ctrl-C; nothing is left then."""
    environment = {**os.environ, "SHOP_ORDERS": "14", "MUTIRAO_WEB_BIND": "127.0.0.1:0",
                   "TMPDIR": str(tmp_path)}  # fmt: skip
    with subprocess.Popen(
        [sys.executable, DEMO, "--web"], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as demo:  # fmt: skip
        assert demo.stdout is not None
        said = ""
        for line in demo.stdout:
            said += line
            if "stay until Ctrl-C" in line:
                break
        address = re.search(r"http://127\.0\.0\.1:\d+", said)
        assert address is not None, said
        with urllib.request.urlopen(f"{address[0]}/jobs?q=state:dead", timeout=30) as page:  # noqa: S310
            assert "no address" in page.read().decode()
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0
    assert "Every committed order has exactly one receipt" in said
    assert [*tmp_path.iterdir()] == []


@pytest.mark.repeats(decided="tests/faults/chaos/test_chaos.py")
def test_on_postgresql(clones: Clones, postgresql_url: str) -> None:
    """On a server it works in a schema of its own, and nothing of it is left."""
    check(clones.run(f"make demo DATABASE={postgresql_url}", LIMIT))
    with psycopg.connect(postgresql_url.replace("+psycopg", "")) as connection:
        schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'mutirao%'"
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        assert connection.execute(schemas).fetchall() == []
        assert connection.execute(tables).fetchall() == []


@pytest.mark.repeats(decided="tests/faults/chaos/test_chaos.py")
def test_on_mariadb(clones: Clones, mysql: MysqlServer) -> None:
    """On that server it works in a database of its own, and nothing of it is left."""
    check(clones.run(f"make demo DATABASE={mysql.url('')}", LIMIT))
    with mysql.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES LIKE 'mutirao_demo%'")
        assert cursor.fetchall() == ()


@pytest.mark.parametrize("url", ["foo", "postgresql+psycopg://nobody@127.0.0.1:1/nothing"])
def test_a_wrong_database_is_refused(url: str) -> None:
    """A word that is no URL and a server that is not there end it at once, without a traceback."""
    done = subprocess.run(
        [sys.executable, DEMO, url], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Give the URL of a server" in done.stderr or "cannot be made" in done.stderr


@pytest.mark.parametrize(
    ("flaw", "told"),
    [
        ({"receipts": [1, 1]}, "1 orders with more than one receipt: [1]"),
        ({"receipts": [1, 5]}, "1 orders that were rolled back and have a receipt: [5]"),
        ({"receipts": []}, "1 orders with neither a receipt nor a dead job: [1]"),
        ({"receipts": [1, 2]}, "1 orders with both a receipt and a dead job: [2]"),
        ({"complaints": []}, "1 dead jobs whose handler did not run exactly once: [2]"),
        ({"complaints": [2, 2]}, "1 dead jobs whose handler did not run exactly once: [2]"),
        ({"jobs": {"ready": 1}}, "1 jobs that did not finish: [0]"),
    ],
)
def test_a_broken_promise_is_told(
    monkeypatch: pytest.MonkeyPatch, flaw: dict[str, Any], told: str
) -> None:
    """The verdict sees every way in which the promise can be broken."""
    monkeypatch.syspath_prepend(DEMO.parent)
    from tally import Tally

    kept = Tally(orders={1, 2}, receipts=[1], dead={2}, complaints=[2], jobs={}, attempts={})
    assert kept.broken() == []
    assert replace(kept, **flaw).broken() == [told]
