"""Celery on RabbitMQ: a task that posts by requests.

docs.celeryq.dev, Concurrency: the gevent pool for what waits for the network. Tasks: `acks_late`,
as what a killed worker was at must not be lost. Optimizing: no results, no events, no rate limits,
a multiplier of ten, since tasks are short. Messages are persistent and its queue is a classic one,
as its defaults are. A session for each of the pool's greenlets keeps its connection.
"""

# ruff: noqa: E402 (what is imported later is patched before)

from gevent import monkey

monkey.patch_all()

import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

import requests
from celery import Celery
from on_webhooks import BODY, HEADERS, PATIENCE, QUEUE, Clock, asked

place, receiver, jobs, at_once = asked()
left, done, local = jobs, threading.Event(), threading.local()
app = Celery("peer", broker=place)
app.conf.update(
    task_default_queue=QUEUE.format("celery"),
    task_ignore_result=True,
    worker_prefetch_multiplier=10,
    worker_disable_rate_limits=True,
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=False,
)


def session() -> requests.Session:
    if not hasattr(local, "session"):
        local.session = requests.Session()
        local.session.trust_env = False
    return local.session


@app.task(name="deliver", acks_late=True)
def deliver(url: str) -> None:
    global left
    session().post(url, data=BODY, headers=HEADERS, timeout=15).raise_for_status()
    left -= 1
    if not left:
        done.set()


def work() -> None:
    app.Worker(
        pool="gevent",
        concurrency=at_once,
        loglevel="ERROR",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        task_events=False,
    ).start()


def wait() -> None:
    if not done.wait(PATIENCE):
        print("not all were delivered", file=sys.stderr)
        sys.__stderr__.flush()
        sys.exit(1)
    clock.tell(jobs)


with app.producer_or_acquire() as producer:
    for _ in range(jobs):
        deliver.apply_async((receiver,), producer=producer)
clock = Clock()
threading.Thread(target=wait).start()
work()
