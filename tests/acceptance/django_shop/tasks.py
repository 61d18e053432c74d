"""The tasks of the shop: each order is paid in a transaction of Django's that completes the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils.module_loading import import_string

from mutirao import Job, Retry
from mutirao.integrations.django import app
from tests.acceptance.django_shop.models import Payment, Receipt
from tests.integration.integrations.django_project import AS_APP

task: Callable[..., Any] = import_string("django_tasks.task" if AS_APP else "django.tasks.task")
AGAIN = Retry.fixed(50, interval=0.1)


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
