"""Peers of `webhooks`: tasks of Celery and of procrastinate that post to the same receiver.

Each works in a process of its own, in its own environment; see `peers/common/on_webhooks.py`. What
it has made at its broker or in its database is removed at the end.
"""

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, make_url, text

from benchmarks.ground import Ground
from benchmarks.peers.envs import command
from mutirao.errors import ConfigurationError

SCHEMA = "mutirao_bench_procrastinate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """Deliveries a second, and the worker's processor time for each in microseconds."""

    delivered: float
    cpu: float


async def posted(name: str, place: Ground, receiver: str, *, jobs: int, at_once: int) -> Posted:
    """Have a peer deliver so many, as its documentation advises.

    Parameters:
        name: `celery`, on a private RabbitMQ, or `procrastinate`, on the database of `place`.
        receiver: the URL to post to.
        jobs, at_once: how many, and how many at a time.

    Raises:
        ConfigurationError: it does not work on this database.
        RuntimeError: it has failed; the message ends with what it said last.
    """
    called = await asyncio.to_thread(command, name, "webhooks")
    async with _broker() if name == "celery" else _schema(place) as where:
        process = await asyncio.create_subprocess_exec(
            *called, where, receiver, str(jobs), str(at_once), stdout=PIPE, stderr=PIPE
        )
        said, complained = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{name} ended with {process.returncode}: {complained.decode()[-500:]}")
    return Posted(**json.loads(said.splitlines()[-1]))


def check(peers: Sequence[str], url: str) -> None:
    """Raise ConfigurationError if one of them cannot work beside this database."""
    if "procrastinate" in peers and make_url(url).get_backend_name() != "postgresql":
        raise ConfigurationError(
            "procrastinate works on PostgreSQL only; give such a database, or leave it out"
        )


@asynccontextmanager
async def _broker() -> AsyncIterator[str]:
    from tests.support.rabbitmq import RabbitServer  # others need no RabbitMQ

    server = RabbitServer()
    await asyncio.to_thread(server.start)
    try:
        yield server.url()
    finally:
        await asyncio.to_thread(server.close)


@asynccontextmanager
async def _schema(place: Ground) -> AsyncIterator[str]:
    """Lend a schema for its tables; yield libpq's URL of a connection that finds them there."""
    url = make_url(place.url).set(drivername="postgresql")
    theirs = url.update_query_dict({"options": f"-csearch_path={SCHEMA}"})
    await place.change(_make)
    try:
        yield theirs.render_as_string(hide_password=False)
    finally:
        await place.change(_drop)


def _make(conn: Connection) -> None:
    _drop(conn)
    conn.execute(text(f"CREATE SCHEMA {SCHEMA}"))


def _drop(conn: Connection) -> None:
    conn.execute(text(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE"))
