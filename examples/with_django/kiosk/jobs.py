"""The jobs of the kiosk."""

from collections.abc import Iterator

from django.conf import settings
from django.db import connections
from django.db.models import F

from kiosk.models import Order
from mutirao import Job, Mutirao

app = Mutirao(f"sqlite:///{settings.FILE}")


def close_old() -> None:
    """Close connections that are broken or too old, as Django does around requests."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:  # a TestCase's
            each.close_if_unusable_or_obsolete()


@app.around_handler
def django_connections(job: Job) -> Iterator[None]:
    """Do so around each handler."""
    close_old()
    try:
        yield
    finally:
        close_old()


@app.task(timeout=30)
def send_receipt(order_id: int) -> None:
    """Send a receipt; done twice, it counts two."""
    Order.objects.filter(id=order_id).update(receipts=F("receipts") + 1)
