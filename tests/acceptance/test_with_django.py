"""The example with Django works as a user runs it: its own tests, and its server with a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.examples import EXAMPLES
from tests.support.served import Served
from tests.support.waiting import wait_until


@pytest.mark.parametrize("name", sorted(each.name for each in EXAMPLES.glob("with_*")))
def test_it_is_short(name: str) -> None:
    """So that somebody reads them: each application, and all files of an example together."""
    found = [len(each.read_text().splitlines()) for each in (EXAMPLES / name).rglob("*.py")]
    assert 0 < sum(found) <= 150
    assert max(found) <= (150 if name == "with_webhooks" else 80)


def test_its_own_tests_pass(tmp_path: Path) -> None:
    """In a TestCase, which is rolled back, on a database that Django has made."""
    kiosk = Served("with_django", tmp_path, KIOSK_FILE=f"{tmp_path}/kiosk.db")
    assert "Ran 2 tests" in kiosk.run("manage.py", "test")


def test_an_order_has_a_receipt(tmp_path: Path) -> None:
    """By a worker beside the server; one that was rolled back has none."""
    kiosk = Served("with_django", tmp_path, KIOSK_FILE=f"{tmp_path}/kiosk.db")
    kiosk.run("manage.py", "migrate")
    with (
        kiosk.running("manage.py", "runserver", "--noreload", "127.0.0.1:PORT"),
        kiosk.running("mutirao", "worker", "kiosk.worker:app"),
    ):
        wait_until(lambda: kiosk.answers("/orders"))
        asked = [kiosk.ask("/orders", {"item": item})[0] for item in ("kite", "lantern", "kite")]
        assert asked == [201, 402, 201]
        kiosk.until("/orders", {"orders": 2, "receipts": 2})
