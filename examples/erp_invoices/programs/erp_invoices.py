"""Orders, and who is told of them: a search index, the ERP of one tenant, a partner's server.

    mutirao migrate erp_invoices:app
    python erp_invoices.py tables https://partner.example/orders whsec_…
    mutirao worker erp_invoices:app --webhooks      # as often as you like, on as many machines
    python erp_invoices.py place 1 30

ERP_INVOICES_DATABASE says where. An order and its publication are one transaction. Each of the
three gets a delivery of its own, and what becomes of one is nothing to the others.
"""

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Text, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from mutirao import DeadJob, Event, Job, Mutirao, Retry

DATABASE = os.environ.get("ERP_INVOICES_DATABASE", "sqlite:///erp_invoices.db")
TENANTS = ("acme", "globex")
WITH_AN_ERP = "acme"
WORK = 0.02  # seconds that indexing an order takes

app = Mutirao(DATABASE)
engine = create_engine(DATABASE)


@dataclass
class OrderPlaced:
    """What is published of an order."""

    order_id: int
    cents: int


orders = app.topic("order.placed", OrderPlaced)


class Base(DeclarativeBase):
    """The shop's own tables; Mutirão's are made by `mutirao migrate`."""


class Order(Base):
    """What a customer bought, and by which publication others are told."""

    __tablename__ = "erp_order"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    tenant: Mapped[str] = mapped_column(Text)
    cents: Mapped[int]
    publication: Mapped[int | None]


class Entry(Base):
    """An order in the search index. Nothing in this table forbids a second one of an order."""

    __tablename__ = "erp_index_entry"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int]
    publication: Mapped[int]


class Missing(Base):
    """An order that the ERP has not taken: somebody has to type it in."""

    __tablename__ = "erp_missing"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int]
    delivery: Mapped[int]
    reason: Mapped[str] = mapped_column(Text)


class CardDeclined(Exception):
    """The customer cannot pay."""


class ErpDown(Exception):
    """The ERP takes nothing."""


@app.subscriber("search", topic=orders)
def index(job: Job, order: OrderPlaced, event: Event) -> None:
    """Index an order, whoever's it is, in the commit that completes the job."""
    time.sleep(WORK)
    with job.transaction() as session:
        session.add(Entry(order_id=order.order_id, publication=event.id))


@app.subscriber("erp", topic=orders, tenant=WITH_AN_ERP, retry=Retry.fixed(2, interval=0.1))
def invoice(order: OrderPlaced) -> None:
    """Have the tenant's ERP write an invoice, which is down for longer than anybody waits."""
    raise ErpDown(f"no invoice of {order.cents} cents")


@invoice.on_dead
def report(job: Job, dead: DeadJob) -> None:
    """Write down what the ERP has not taken."""
    order = dead.args["payload"]["order_id"]
    with job.transaction() as session:
        session.add(Missing(order_id=order, delivery=dead.id, reason=str(dead.error)))


def is_declined(number: int) -> bool:
    """Tell whether the customer of an order cannot pay."""
    return number % 5 == 0


def place(session: Session, number: int) -> None:
    """Write an order and publish it, in one transaction: both happen, or neither."""
    tenant, cents = TENANTS[number % len(TENANTS)], 100 * number
    published = orders.publish(OrderPlaced(number, cents), tenant=tenant, conn=session)
    session.add(Order(id=number, tenant=tenant, cents=cents, publication=published.id))
    session.flush()
    if is_declined(number):
        raise CardDeclined


def place_all(first: int, last: int) -> None:
    """Place orders; those of customers who cannot pay are rolled back."""
    for number in range(first, last + 1):
        with suppress(CardDeclined), Session(engine) as session, session.begin():
            place(session, number)


def make_tables(url: str, secret: str) -> None:
    """Make the tables, and tell the partner's server of all orders from now on."""
    Base.metadata.create_all(engine)
    app.endpoints.put("partner", url, orders.topic, secret=secret)


if __name__ == "__main__":
    if sys.argv[1] == "tables":
        make_tables(*sys.argv[2:])
    else:
        place_all(*map(int, sys.argv[2:]))
    app.close()
