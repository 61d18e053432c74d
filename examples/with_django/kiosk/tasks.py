"""The tasks of the kiosk, which workers find by the name of this module."""

from django.db.models import F

from kiosk.models import Order
from mutirao import Job
from mutirao.integrations.django import app


@app.task(timeout=30)
def send_receipt(job: Job, order: int) -> None:
    """Send a receipt: in the commit that completes the job, so once, however a worker ends."""
    with job.transaction(using="default"):
        Order.objects.filter(pk=order).update(receipts=F("receipts") + 1)
