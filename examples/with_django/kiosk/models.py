"""What a kiosk sells."""

from django.db import models


class Order(models.Model):  # type: ignore[misc]
    """An order, and how many receipts were sent for it."""

    item = models.TextField()
    receipts = models.IntegerField(default=0)
