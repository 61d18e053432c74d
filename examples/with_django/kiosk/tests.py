"""The tests of the kiosk: `python manage.py test`."""

from django.test import TestCase

from mutirao.testing.django import drain


class Orders(TestCase):  # type: ignore[misc]
    """Each is rolled back, with its jobs."""

    def test_each_order_has_a_receipt(self) -> None:
        """Once its job has run. A refused one has none, and there is no order."""
        for item, status in (("kite", 201), ("lantern", 402)):
            answer = self.client.post("/orders", {"item": item}, "application/json")
            assert answer.status_code == status
        assert drain() == {"succeeded": 1}
        assert self.client.get("/orders").json() == {"orders": 1, "receipts": 1}
