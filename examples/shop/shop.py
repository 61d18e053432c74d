"""A small shop: it takes orders in its own tables and sends the receipts in the background.

    mutirao migrate shop:app    # Mutirão's tables, once
    python shop.py 500          # take 500 orders
    mutirao worker shop:app     # as often as you like, on as many machines

SHOP_DATABASE says where; any URL that SQLAlchemy and Mutirão know will do.
"""

import asyncio
import os
import random
import sys
import time
from contextlib import suppress

from sqlalchemy import Text, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from mutirao import DeadJob, Job, Mutirao, Retry

DATABASE = os.environ.get("SHOP_DATABASE", "sqlite:///shop.db")
WITHOUT_ADDRESS = 13  # the order that nobody can send a receipt for

app = Mutirao(DATABASE)


class Base(DeclarativeBase):
    """The shop's own tables; Mutirão's are made by `mutirao migrate`."""


class Order(Base):
    """What a customer bought."""

    __tablename__ = "shop_order"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)


class Receipt(Base):
    """A receipt that was sent. Nothing in this table forbids a second one for the same order."""

    __tablename__ = "shop_receipt"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_number: Mapped[int]


class Complaint(Base):
    """A receipt that could not be sent, for a human to look at."""

    __tablename__ = "shop_complaint"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_number: Mapped[int]
    reason: Mapped[str] = mapped_column(Text)


class CardDeclined(Exception):
    """The customer cannot pay."""


class MailServerBusy(Exception):
    """The receipt cannot be sent just now."""


def place_order(session: Session, number: int) -> None:
    """Write an order and ask for its receipt, in one transaction: both happen, or neither."""
    session.add(Order(number=number))
    session.flush()
    send_receipt.using(conn=session).enqueue(order_number=number)
    if number % 10 == 5:
        raise CardDeclined


@app.task(queue="receipts", retry=Retry.fixed(max_attempts=5, interval=0.5))
async def send_receipt(job: Job, order_number: int) -> None:
    """Send a receipt: slow, and sometimes it fails at first."""
    await asyncio.sleep(random.uniform(0.1, 0.3))
    if order_number == WITHOUT_ADDRESS:
        raise ValueError(f"order {order_number} has no address")
    if order_number % 7 == 0 and job.attempt == 1:
        raise MailServerBusy
    async with job.transaction() as session:  # the receipt and the job's completion: one commit
        session.add(Receipt(order_number=order_number))


@send_receipt.on_dead
async def complain(job: Job, dead: DeadJob) -> None:
    """Runs when a job has used up its attempts; a job itself, with retries of its own."""
    async with job.transaction() as session:
        session.add(Complaint(order_number=dead.args["order_number"], reason=str(dead.error)))


def main(orders: int) -> None:
    """Make the shop's tables and take orders, about a hundred a second."""
    engine = create_engine(DATABASE)
    Base.metadata.create_all(engine)
    for number in range(1, orders + 1):
        with suppress(CardDeclined), Session(engine) as session, session.begin():
            place_order(session, number)
        time.sleep(0.01)


if __name__ == "__main__":
    main(int(sys.argv[1]))
