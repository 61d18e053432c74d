"""Takes orders, and counts what came of them: a program, as Django is set up once for a process.

python -m tests.acceptance.django_shop.counting take 20000 10
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django

if __name__ == "__main__":
    django.setup()

from django.db import connections, transaction
from django.db.models import Count

from mutirao.integrations.django.models import Attempt, Job
from tests.acceptance.django_shop.models import Payment, Receipt
from tests.acceptance.django_shop.tasks import apay, pay


def take(number: int, refused: int) -> None:
    """Take orders; one of so many is refused after its job was enqueued."""
    for order in range(number):
        try:
            with transaction.atomic():
                (apay if order % 2 else pay).enqueue(order=order)
                if order % refused == refused - 1:
                    raise ValueError("the card was refused")
        except ValueError:
            pass


def counted() -> dict[str, Any]:
    """Count orders that were paid, payments, orders with receipts, jobs and attempts."""
    return {
        "paid": Payment.objects.aggregate(n=Count("order", distinct=True))["n"],
        "payments": Payment.objects.count(),
        "with_receipt": Receipt.objects.aggregate(n=Count("order", distinct=True))["n"],
        "receipts": Receipt.objects.count(),
        "jobs": _by(Job, "state"),
        "attempts": _by(Attempt, "outcome"),
    }


def _by(model: Any, column: str) -> dict[str, int]:
    return dict(model.objects.order_by().values_list(column).annotate(n=Count("*")))


if __name__ == "__main__":
    if sys.argv[1] == "take":
        take(int(sys.argv[2]), int(sys.argv[3]))
    else:
        print(json.dumps(counted()))
    connections.close_all()
