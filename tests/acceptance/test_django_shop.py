"""A shop in Django whose workers are killed each second: each order is paid once.

By hand with more orders: `python -m tests.acceptance.django_shop --orders 20000`.
"""

from __future__ import annotations

from typing import Literal

import pytest

from tests.acceptance.django_shop.run import Plan, run

pytestmark = pytest.mark.repeats(decided="tests/integration/integrations/test_django_backend.py")


@pytest.mark.parametrize("database", ["postgresql", "mysql"])
def test_each_order_is_paid_once(database: Literal["postgresql", "mysql"]) -> None:
    """Receipts are there, too; what was refused after it was enqueued never was."""
    report = run(Plan(database=database, orders=200, deadline=200), print)
    assert [*report.problems()] == []
    assert report.kills > 0
