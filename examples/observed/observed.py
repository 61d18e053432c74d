"""Orders that are paid, and whoever runs this wants to see it.

    mutirao migrate observed:app
    mutirao worker observed:app --processes 3 --metrics-port 9464
    mutirao metrics observed:app
    python observed.py 600                       # a producer of so many orders

OBSERVED_DATABASE says where.
"""

import os
import sys

from mutirao import Dead, Job, Mutirao, Retry

app = Mutirao(os.environ.get("OBSERVED_DATABASE", "sqlite:///observed.db"))


@app.task(queue="payments")
async def charge(job: Job, order: int) -> None:
    """Charge a card; one in fifty is refused, again and again."""
    if order % 50 == 0:
        raise Dead("the card was refused") if job.attempt == 3 else Retry(after=0.2)
    await send_receipt.aenqueue(order)


@app.task(queue="mail")
def send_receipt(order: int) -> None:
    """Send a receipt."""


def produce(orders: int) -> None:
    """Have so many orders charged, each in a transaction of its own."""
    for order in range(orders):
        charge.enqueue(order)
    app.close()


if __name__ == "__main__":
    produce(int(sys.argv[1]))
