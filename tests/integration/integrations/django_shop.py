"""A shop in Django: takes orders, and counts what came of them.

Its tasks stand here for the workers that `test_django_shop.py` kills meanwhile: each order is paid
once in a transaction of Django's, whose commit completes the job and enqueues the receipt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection, connections, models, transaction
from django.db.models import Count
from django.utils.module_loading import import_string

from mutirao import Job, Retry
from mutirao.integrations.django import app
from tests.integration.integrations.django_project import AS_APP

task: Callable[..., Any] = import_string("django_tasks.task" if AS_APP else "django.tasks.task")
AGAIN = Retry.fixed(50, interval=0.1)


class Payment(models.Model):  # type: ignore[misc]
    """What a handler has done; twice for an order would be two."""

    order = models.IntegerField()

    class Meta:
        app_label = "mutirao"


class Receipt(models.Model):  # type: ignore[misc]
    """What comes after it, at least once."""

    order = models.IntegerField()

    class Meta:
        app_label = "mutirao"


@task
def send_receipt(order: int) -> None:
    """Write that it was sent."""
    Receipt.objects.create(order=order)


@app.task(retry=AGAIN)
def pay(job: Job, order: int) -> None:
    """Pay, and enqueue the receipt, in the commit that completes this job."""
    with job.transaction(using="default"):
        Payment.objects.create(order=order)
        send_receipt.enqueue(order)


@app.task(retry=AGAIN)
async def apay(job: Job, order: int) -> None:
    """Do the same in a coroutine."""
    async with job.transaction(using="default"):
        await Payment.objects.acreate(order=order)
        await send_receipt.aenqueue(order)


def take_orders(number: int) -> None:
    """Take orders, a tenth of which is refused after it was enqueued."""
    for order in range(number):
        try:
            with transaction.atomic():
                (apay if order % 2 else pay).enqueue(order=order)
                if order % 10 == 9:
                    raise ValueError("the card was refused")
        except ValueError:
            pass


def counted() -> str:
    """Return orders that were paid, payments, orders with receipts, and jobs that wait or died."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM mutirao_jobs WHERE state NOT IN ('succeeded', 'dead')")
        [left] = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM mutirao_jobs WHERE state = 'dead'")
        [dead] = cursor.fetchone()
    paid = Payment.objects.aggregate(n=Count("order", distinct=True))["n"]
    sent = Receipt.objects.aggregate(n=Count("order", distinct=True))["n"]
    return f"{paid} {Payment.objects.count()} {sent} {left} {dead}"


def main(command: str, number: int) -> None:
    """Make the tables, take orders, or count."""
    if command == "tables":
        with connection.schema_editor() as editor:
            editor.create_model(Payment)
            editor.create_model(Receipt)
    elif command == "orders":
        take_orders(number)
    else:
        print(counted())  # noqa: T201
    connections.close_all()
