"""Celery on RabbitMQ.

docs.celeryq.dev, Optimizing: one process without a fork (pool solo: a task that does nothing took
175 to 196 µs of the processor, with ten threads 249 to 282), early acknowledgement, no results, no
events, a prefetch of 1,000 at once, messages that are not written to disk ("transient"), no rate
limits. Its queue is a classic one, and it publishes without confirms, as its defaults are.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

from celery import Celery
from on_rabbitmq import QUEUE, Count, asked, drain, rate

url, jobs, alone = asked()
count, name = Count(), QUEUE.format("celery")
app = Celery("peer", broker=url)
app.conf.update(
    task_default_queue=name,
    task_default_delivery_mode="transient",
    task_ignore_result=True,
    worker_prefetch_multiplier=1_000,
    worker_concurrency=1,
    worker_disable_rate_limits=True,
    worker_hijack_root_logger=False,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=False,
)


@app.task(name="nothing")
def nothing(n: int) -> None:
    count.one()


def work() -> None:
    worker = app.Worker(
        pool="solo",
        loglevel="ERROR",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        task_events=False,
    )
    worker.start()


def publish(number: int) -> None:
    with app.producer_or_acquire() as producer:
        for n in range(number):
            nothing.apply_async((n,), producer=producer)


def waiting() -> int:
    with app.connection_for_read() as connection:
        found: int = connection.default_channel.queue_declare(name, passive=True).message_count
        return found


publish(1)  # which connects
one_by_one = rate(alone, lambda: publish(alone))
many = rate(jobs, lambda: publish(jobs))
drain(jobs + alone + 1, waiting, count, work, one_by_one, many)
