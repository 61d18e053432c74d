"""dramatiq on RabbitMQ.

dramatiq.io, Advanced Topics: one process with 8 threads, its default (a message took 130 µs of the
processor, with two threads 165 to 189, with one 154 to 199); the default middleware without its
Prometheus; prefetch of 1,000 messages a thread, as it has by itself. Its queue is a classic one,
and it publishes without confirms, as its defaults are. It has no call that enqueues many.
"""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from on_rabbitmq import QUEUE, Count, asked, drain, rate

THREADS = 8

logging.disable(logging.WARNING)
url, jobs, alone = asked()
count, name = Count(), QUEUE.format("dramatiq")
broker = RabbitmqBroker(url=url)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=name)
def nothing(n: int) -> None:
    count.one()


def publish(number: int) -> None:
    for n in range(number):
        nothing.send(n)


def waiting() -> int:
    return int(broker.get_queue_message_counts(name)[0])


publish(1)  # which connects
one_by_one = rate(alone, lambda: publish(alone))
many = rate(jobs, lambda: publish(jobs))
worker = dramatiq.Worker(broker, worker_threads=THREADS)
drain(jobs + alone + 1, waiting, count, worker.start, one_by_one, many)
