"""Tickets by Quart: each order has a receipt, sent by workers beside the web server.

mutirao migrate tickets:jobs
hypercorn tickets:web
mutirao worker tickets:jobs --processes 2
"""

import os
from collections.abc import AsyncGenerator

from quart import Quart, request
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mutirao import Job, Mutirao

engine = create_async_engine(os.environ.get("SHOP_URL", "sqlite+aiosqlite:///tickets.db"))
sessions = async_sessionmaker(engine, expire_on_commit=False)
jobs = Mutirao(engine=engine)
web = Quart(__name__)


class Base(DeclarativeBase):
    """The tables of the shop."""


class Order(Base):
    """An order, and how many receipts were sent for it."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    receipts: Mapped[int] = mapped_column(default=0)


@jobs.task(timeout=30)
async def send_receipt(job: Job, order_id: int) -> None:
    """Count a receipt, in one commit with the end of the job."""
    async with job.transaction() as session:
        order = await session.get_one(Order, order_id, with_for_update=True)
        order.receipts += 1


@web.while_serving
async def lifespan() -> AsyncGenerator[None, None]:
    """Hold the connections of jobs and shop while the server serves."""
    async with jobs.lifespan():
        async with engine.begin() as conn:
            await conn.run_sync(Base.metadata.create_all)
        yield
    await engine.dispose()


@web.post("/orders")
async def place() -> tuple[dict[str, int] | dict[str, str], int]:
    """Take an order; a lantern cannot be paid, and leaves no receipt."""
    item = (await request.get_json())["item"]
    async with sessions() as session:
        row = Order(item=item)
        session.add(row)
        await session.flush()
        await send_receipt.using(conn=session).aenqueue(order_id=row.id)
        if item == "lantern":
            return {"error": "the card was refused"}, 402  # and nothing is committed
        await session.commit()
    return {"id": row.id}, 201


@web.get("/orders")
async def orders() -> dict[str, int]:
    """Count orders and receipts."""
    async with sessions() as session:
        found = await session.execute(select(func.count(Order.id), func.sum(Order.receipts)))
        count, receipts = found.one()
    return {"orders": count, "receipts": receipts or 0}
