"""The tests of the kiosk: `python manage.py test`."""

from django.db import connection
from django.test import TestCase

from kiosk.jobs import app
from mutirao.testing import drain


class Orders(TestCase):  # type: ignore[misc]
    """Each is rolled back, with its jobs."""

    def test_an_order_has_a_receipt(self) -> None:
        """Once its job has run."""
        self.client.post("/orders", {"item": "kite"}, "application/json")
        assert drain(app, conn=connection)["succeeded"] == 1
        assert self.client.get("/orders").json() == {"orders": 1, "receipts": 1}

    def test_a_refused_one_has_none(self) -> None:
        """Nor is there an order."""
        assert (
            self.client.post("/orders", {"item": "lantern"}, "application/json").status_code == 402
        )
        assert drain(app, conn=connection).total() == 0
