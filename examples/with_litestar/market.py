"""A market on Litestar and advanced-alchemy: each order has a receipt, sent by a worker.

litestar --app market:web mutirao migrate
litestar --app market:web run
litestar --app market:web mutirao worker --processes 2
"""

import os

from advanced_alchemy.extensions.litestar import SQLAlchemyAsyncConfig, SQLAlchemyPlugin
from litestar import Litestar, get, post
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.params import JSONBody
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mutirao import Job, Mutirao
from mutirao.integrations.litestar import MutiraoPlugin

URL = os.environ.get("SHOP_URL", "sqlite+aiosqlite:///market.db")
jobs = Mutirao(URL)


class Base(DeclarativeBase):
    """The tables of the market."""


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


@post("/orders")
async def place(
    data: JSONBody[dict[str, str]], db_session: NamedDependency[AsyncSession]
) -> dict[str, int]:
    """Take an order, in the session that commits before the answer; a lantern is refused."""
    row = Order(item=data["item"])
    db_session.add(row)
    await db_session.flush()
    await send_receipt.using(conn=db_session).aenqueue(order_id=row.id)
    if row.item == "lantern":
        raise HTTPException("the card was refused", status_code=402)
    return {"id": row.id}


@get("/orders")
async def orders(db_session: NamedDependency[AsyncSession]) -> dict[str, int]:
    """Count orders and receipts."""
    found = await db_session.execute(select(func.count(Order.id), func.sum(Order.receipts)))
    count, receipts = found.one()
    return {"orders": count, "receipts": receipts or 0}


config = SQLAlchemyAsyncConfig(
    connection_string=URL,
    before_send_handler="autocommit",
    create_all=True,
    metadata=Base.metadata,
)
web = Litestar([place, orders], plugins=[SQLAlchemyPlugin(config=config), MutiraoPlugin(jobs)])
