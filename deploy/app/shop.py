"""The application of these files. Put your own in its place: `shop:app` is what they name.

Its database is that of MUTIRAO_DATABASE, for the commands and for whatever else enqueues.
"""

import logging
import os

from mutirao import Mutirao

app = Mutirao(os.environ.get("MUTIRAO_DATABASE", "sqlite:///shop.db"))
log = logging.getLogger("shop")


@app.task(queue="mail")
async def send_receipt(order_id: int) -> None:
    """Send a receipt."""
    log.info("a receipt for order %s", order_id)
