"""Parcels by aiohttp: each order has a receipt, sent by workers beside the web server.

mutirao migrate parcels:jobs
python -m aiohttp.web -P 8080 parcels:make
mutirao worker parcels:jobs --processes 2
"""

import os
from collections.abc import AsyncIterator, Sequence

from aiohttp import web
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mutirao import Job, Mutirao

engine = create_async_engine(os.environ.get("SHOP_URL", "sqlite+aiosqlite:///parcels.db"))
sessions = async_sessionmaker(engine, expire_on_commit=False)
jobs = Mutirao(engine=engine)


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


async def lifespan(_: web.Application) -> AsyncIterator[None]:
    """Hold the connections of jobs and shop while the server serves."""
    async with jobs.lifespan():
        async with engine.begin() as conn:
            await conn.run_sync(Base.metadata.create_all)
        yield
    await engine.dispose()


async def place(request: web.Request) -> web.Response:
    """Take an order; a lantern cannot be paid, and leaves no receipt."""
    async with sessions.begin() as session:
        row = Order(item=(await request.json())["item"])
        session.add(row)
        await session.flush()
        await send_receipt.using(conn=session).aenqueue(order_id=row.id)
        if row.item == "lantern":
            raise web.HTTPPaymentRequired
    return web.json_response({"id": row.id}, status=201)


async def orders(request: web.Request) -> web.Response:
    """Count orders and receipts."""
    async with sessions() as session:
        found = await session.execute(select(func.count(Order.id), func.sum(Order.receipts)))
        count, receipts = found.one()
    return web.json_response({"orders": count, "receipts": receipts or 0})


def make(argv: Sequence[str]) -> web.Application:
    """Make the web application."""
    made = web.Application()
    made.add_routes([web.post("/orders", place), web.get("/orders", orders)])
    made.cleanup_ctx.append(lifespan)
    return made
