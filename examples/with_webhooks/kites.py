"""A shop on FastAPI and SQLAlchemy: each order has a receipt, and a partner is told by a webhook.

    mutirao migrate kites:jobs
    uvicorn kites:api

The worker runs in the web server's process. The partner is a page of this program: what it
verifies, and drops if it comes twice, is what a program elsewhere would do.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mutirao import Job, Mutirao
from mutirao.errors import InvalidWebhook
from mutirao.webhooks import WebhookSettings, verify

PORT = int(os.environ.get("KITES_PORT", "8000"))
SECRET = os.environ.get("KITES_SECRET", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfgh01FGpY=")
# The partner is on this machine, where webhooks do not go unless they may.
HERE = WebhookSettings(schemes=["http"], ports=[PORT], networks=["127.0.0.0/8"])

engine = create_async_engine(os.environ.get("KITES_DATABASE", "sqlite+aiosqlite:///kites.db"))
sessions = async_sessionmaker(engine, expire_on_commit=False)
jobs = Mutirao(engine=engine)
serving = jobs.lifespan(worker=True, concurrency=10, webhooks=HERE)


class Base(DeclarativeBase):
    """The tables of the shop."""


class Order(Base):
    """An order, and how many receipts were sent for it."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    receipts: Mapped[int] = mapped_column(default=0)


class Heard(Base):
    """An order as the partner has it."""

    __tablename__ = "heard"
    order_id: Mapped[int] = mapped_column(primary_key=True)


class NewOrder(BaseModel):
    """What a customer sends."""

    item: str


class OrderPlaced(BaseModel):
    """What the partner is told."""

    order_id: int
    item: str


class Envelope(BaseModel):
    """How it is told."""

    data: OrderPlaced


placed = jobs.topic("order.placed", OrderPlaced)


@jobs.task(timeout=30)
async def send_receipt(job: Job, order_id: int) -> None:
    """Count a receipt, in one commit with the end of the job."""
    async with job.transaction() as session:
        order = await session.get_one(Order, order_id)
        order.receipts += 1


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    """Work while the web server serves."""
    async with engine.begin() as conn:
        await conn.run_sync(Base.metadata.create_all)
    url = f"http://127.0.0.1:{PORT}/partner"
    await jobs.endpoints.aput("partner", url, placed, secret=SECRET)
    async with serving:
        yield
    await engine.dispose()


api = FastAPI(lifespan=lifespan)


@api.post("/orders", status_code=201)
async def place(order: NewOrder) -> dict[str, int]:
    """Take an order; a lantern cannot be paid, and leaves neither a receipt nor a webhook."""
    async with sessions.begin() as session:
        row = Order(item=order.item)
        session.add(row)
        await session.flush()
        await send_receipt.using(conn=session).aenqueue(order_id=row.id)
        await placed.apublish(OrderPlaced(order_id=row.id, item=row.item), conn=session)
        if order.item == "lantern":
            raise HTTPException(402, "the card was refused")
    return {"id": row.id}


@api.get("/orders")
async def orders() -> dict[str, int]:
    """Count orders, receipts, and what the partner has heard of."""
    async with sessions() as session:
        row = (await session.execute(select(func.count(Order.id), func.sum(Order.receipts)))).one()
        heard = await session.scalar(select(func.count(Heard.order_id)))
    return {"orders": row[0], "receipts": row[1] or 0, "heard": heard or 0}


@api.post("/partner", status_code=204)
async def partner(request: Request) -> None:
    """Take a webhook, once."""
    body = await request.body()
    try:
        received = verify(request.headers, body, SECRET)
    except InvalidWebhook as error:
        raise HTTPException(401, str(error)) from error
    async with sessions.begin() as session:
        if await jobs.inbox(session).aremember("partner", received.id):
            session.add(Heard(order_id=Envelope.model_validate_json(body).data.order_id))


@api.get("/health")
async def health(response: Response) -> dict[str, object]:
    """Say whether the worker works."""
    found = serving.health()
    response.status_code = 200 if found.alive else 503
    return {"alive": found.alive, "reason": found.reason}
