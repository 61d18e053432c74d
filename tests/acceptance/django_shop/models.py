"""What handlers have done; twice for an order would be two rows."""

from __future__ import annotations

from django.db import models


class Payment(models.Model):  # type: ignore[misc]
    """An order that was paid: once, in the commit that completes the job."""

    order = models.IntegerField()


class Receipt(models.Model):  # type: ignore[misc]
    """What comes after it, at least once."""

    order = models.IntegerField()
