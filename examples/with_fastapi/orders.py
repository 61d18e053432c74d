"""A shop on FastAPI: each order has a receipt, sent by workers beside the web server.

mutirao migrate orders:jobs && uvicorn orders:web  # and beside it:
mutirao worker orders:jobs --processes 2
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Body, Depends, FastAPI, HTTPException
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mutirao import Job, Mutirao

engine = create_async_engine(os.environ.get("SHOP_URL", "sqlite+aiosqlite:///orders.db"))
sessions = async_sessionmaker(engine, expire_on_commit=False)
jobs = Mutirao(engine=engine)


class Base(DeclarativeBase):
    """The tables of the shop."""


class Order(Base):
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


@asynccontextmanager
async def lifespan(web: FastAPI) -> AsyncIterator[None]:
    """Hold the connections of jobs and shop while the server serves."""
    async with jobs.lifespan():
        async with engine.begin() as conn:
            await conn.run_sync(Base.metadata.create_all)
        yield
    await engine.dispose()


async def transaction() -> AsyncIterator[AsyncSession]:
    """Commit before the answer is sent, which `scope="function"` says: who gets 201 has a job."""
    async with sessions.begin() as session:
        yield session


Transaction = Annotated[AsyncSession, Depends(transaction, scope="function")]
web = FastAPI(lifespan=lifespan)


@web.post("/orders", status_code=201)
async def place(item: Annotated[str, Body(embed=True)], session: Transaction) -> dict[str, int]:
    """Take an order; a lantern cannot be paid, and leaves no receipt."""
    row = Order(item=item)
    session.add(row)
    await session.flush()
    await send_receipt.using(conn=session).aenqueue(order_id=row.id)
    if item == "lantern":
        raise HTTPException(402, "the card was refused")
    return {"id": row.id}


@web.get("/orders")
async def orders(session: Transaction) -> dict[str, int]:
    """Count orders and receipts."""
    counted = select(func.count(Order.id), func.coalesce(func.sum(Order.receipts), 0))
    count, receipts = (await session.execute(counted)).one()
    return {"orders": count, "receipts": receipts}
