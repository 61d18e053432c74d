"""A library on Pyramid, whose transaction manager commits: each order has a receipt.

mutirao migrate library:jobs && python library.py  # which makes the library's own table
waitress-serve --port=8080 library:web
mutirao worker library:jobs --processes 2
"""

import os

import zope.sqlalchemy
from pyramid.config import Configurator
from pyramid.httpexceptions import HTTPPaymentRequired
from pyramid.request import Request
from pyramid.response import Response
from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from mutirao import Job, Mutirao

engine = create_engine(os.environ.get("SHOP_URL", "sqlite:///library.db"))
jobs = Mutirao(engine=engine)


class Base(DeclarativeBase):
    """The tables of the library."""


class Order(Base):
    """An order, and how many receipts were sent for it."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    receipts: Mapped[int] = mapped_column(default=0)


@jobs.task(timeout=30)
def send_receipt(job: Job, order_id: int) -> None:
    """Count a receipt, in one commit with the end of the job."""
    with job.transaction() as session:
        order = session.get_one(Order, order_id, with_for_update=True)
        order.receipts += 1


def session_of(request: Request) -> Session:
    """Return the session of a request, which `request.tm` commits or aborts."""
    session = Session(engine)
    zope.sqlalchemy.register(session, transaction_manager=request.tm)
    return session


def place(request: Request) -> Response:
    """Take an order; a lantern cannot be paid, and leaves no receipt."""
    row = Order(item=request.json_body["item"])
    request.db.add(row)
    request.db.flush()
    send_receipt.using(conn=request.db).enqueue(order_id=row.id)
    if row.item == "lantern":
        raise HTTPPaymentRequired
    return Response(json_body={"id": row.id}, status=201)


def orders(request: Request) -> dict[str, int]:
    """Count orders and receipts."""
    counted = select(func.count(Order.id), func.sum(Order.receipts))
    count, receipts = request.db.execute(counted).one()
    return {"orders": count, "receipts": receipts or 0}


with Configurator(settings={"tm.manager_hook": "pyramid_tm.explicit_manager"}) as config:
    config.include("pyramid_tm")
    config.add_request_method(session_of, "db", reify=True)
    config.add_route("orders", "/orders")
    config.add_view(place, route_name="orders", renderer="json", request_method="POST")
    config.add_view(orders, route_name="orders", renderer="json", request_method="GET")
    web = config.make_wsgi_app()

if __name__ == "__main__":
    Base.metadata.create_all(engine)
