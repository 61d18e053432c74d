"""The example with webhooks works as a user runs it: under uvicorn, with its worker inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.served import Served
from tests.support.waiting import wait_until


@pytest.mark.repeats(decided="tests/integration/webhooks")
def test_an_order_has_a_receipt_and_a_webhook(tmp_path: Path) -> None:
    """One that was rolled back has neither, and a stranger's webhook is refused."""
    url = f"sqlite+aiosqlite:///{tmp_path}/kites.db"
    kites = Served("with_webhooks", tmp_path, KITES_DATABASE=url, KITES_PORT="PORT")
    kites.run("mutirao", "migrate", "kites:jobs")
    with kites.running("uvicorn", "kites:api", "--port", "PORT"):
        wait_until(lambda: kites.answers("/health"))
        asked = [kites.ask("/orders", {"item": item})[0] for item in ("kite", "lantern", "kite")]
        assert asked == [201, 402, 201]
        assert kites.ask("/partner", {"data": {"order_id": 7, "item": "kite"}})[0] == 401
        kites.until("/orders", {"orders": 2, "receipts": 2, "heard": 2})
        assert kites.ask("/health") == (200, {"alive": True, "reason": None})
