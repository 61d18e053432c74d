"""A bakery on Flask: each order is baked by a worker in the processes of gunicorn.

    flask --app bakery mutirao migrate && python bakery.py  # which makes the bakery's own table
    gunicorn -c gunicorn_config.py bakery:web  # two processes, a worker in each

An order and its job are one transaction of Flask-SQLAlchemy's session.
"""

import os

from flask import Flask, request
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mutirao import Job, Retry
from mutirao.integrations.flask import FlaskMutirao


class Base(DeclarativeBase):
    """The tables of the bakery."""


web = Flask(__name__)
web.config["SQLALCHEMY_DATABASE_URI"] = os.environ.get("SHOP_URL", "sqlite:////tmp/bakery.db")
web.config["MUTIRAO_URL"] = web.config["SQLALCHEMY_DATABASE_URI"]
db, jobs = SQLAlchemy(web, model_class=Base), FlaskMutirao()
jobs.init_app(web)
worker = jobs.worker(concurrency=4)  # started in each process of gunicorn


class Loaf(Base):
    """A loaf, and how often it was baked."""

    __tablename__ = "loaves"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    baked: Mapped[int] = mapped_column(default=0)


@jobs.task(timeout=60, retry=Retry.fixed(5, interval=1))
def bake(job: Job, loaf_id: int) -> None:
    """Bake a loaf; what is burnt the first time is baked once more."""
    with job.transaction() as session:
        loaf = session.get_one(Loaf, loaf_id, with_for_update=True)
        loaf.baked += 1
        if loaf.kind == "burnt" and job.attempt == 1:
            raise ValueError("it is burnt")


@web.post("/loaves")
def order() -> tuple[dict[str, int] | dict[str, str], int]:
    """Take an order; cake is not sold here, and nobody bakes one."""
    loaf = Loaf(kind=request.get_json()["kind"])
    db.session.add(loaf)
    db.session.flush()
    bake.using(conn=db.session).enqueue(loaf_id=loaf.id)
    if loaf.kind == "cake":
        return {"error": "no cake"}, 422  # and nothing is committed
    db.session.commit()
    return {"id": loaf.id}, 201


@web.get("/loaves")
def loaves() -> dict[str, int]:
    """Count the loaves, and how often one was baked."""
    count, baked = db.session.execute(select(func.count(Loaf.id), func.sum(Loaf.baked))).one()
    return {"loaves": count, "baked": baked or 0}


@web.get("/health")
def health() -> tuple[dict[str, object], int]:
    """Say whether the worker of this process works."""
    found = worker.health()
    return {"alive": found.alive, "reason": found.reason}, 200 if found.alive else 503


if __name__ == "__main__":
    with web.app_context():
        db.create_all()
