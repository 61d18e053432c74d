"""A bakery on Flask: each order is baked by a worker in the processes of gunicorn.

    mutirao migrate bakery:jobs
    python bakery.py                          # makes the bakery's own table
    gunicorn -c gunicorn_config.py bakery:web # two processes, a worker in each

Each order is an INSERT of the request's own transaction, and so is its job.
"""

import os
import sqlite3
from contextlib import closing

from flask import Flask, Response, jsonify, request
from sqlalchemy import text

from mutirao import Job, Mutirao, Retry

FILE = os.path.abspath(os.environ.get("BAKERY_FILE", "bakery.db"))
TABLE = "CREATE TABLE IF NOT EXISTS loaves (id INTEGER PRIMARY KEY, kind TEXT, baked INT DEFAULT 0)"

web = Flask(__name__)
jobs = Mutirao(f"sqlite:///{FILE}")
worker = jobs.worker(concurrency=4)  # started in each process of gunicorn


@jobs.task(timeout=60, retry=Retry.fixed(5, interval=1))
def bake(job: Job, loaf_id: int) -> None:
    """Bake a loaf; what is burnt the first time is baked once more."""
    with job.transaction() as session:
        session.execute(text("UPDATE loaves SET baked = baked + 1 WHERE id = :id"), {"id": loaf_id})
        kind = session.execute(text("SELECT kind FROM loaves WHERE id = :id"), {"id": loaf_id})
        if kind.scalar_one() == "burnt" and job.attempt == 1:
            raise ValueError("it is burnt")


@web.post("/loaves")
def order() -> tuple[Response, int]:
    """Take an order; cake is not sold here, and nobody bakes one."""
    kind = request.get_json()["kind"]
    with closing(sqlite3.connect(FILE, timeout=30)) as db, db:
        row = db.execute("INSERT INTO loaves (kind) VALUES (?) RETURNING id", (kind,)).fetchone()
        bake.using(conn=db).enqueue(loaf_id=row[0])
        if kind == "cake":
            db.rollback()
            return jsonify(error="no cake"), 422
    return jsonify(id=row[0]), 201


@web.get("/loaves")
def loaves() -> Response:
    """Count the loaves, and how often one was baked."""
    with closing(sqlite3.connect(FILE, timeout=30)) as db:
        count, baked = db.execute("SELECT count(*), coalesce(sum(baked), 0) FROM loaves").fetchone()
    return jsonify(loaves=count, baked=baked)


@web.get("/health")
def health() -> tuple[Response, int]:
    """Say whether the worker of this process works."""
    found = worker.health()
    return jsonify(alive=found.alive, reason=found.reason), 200 if found.alive else 503


if __name__ == "__main__":
    with closing(sqlite3.connect(FILE)) as db:
        db.execute(TABLE)
