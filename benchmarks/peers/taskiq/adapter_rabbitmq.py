"""taskiq on RabbitMQ, by taskiq-aio-pika.

taskiq-python.github.io: a coroutine, up to 1,000 at once (`--max-async-tasks`), a prefetch of 1,000
(`qos`), no results, no validation of parameters (`--no-parse`), acknowledged when received, and
uvloop, which its worker takes where it is installed: a fifth less processor time. It publishes with
confirms. It has no call that enqueues many: 2,000 are under way at once.
"""

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "common"))

import uvloop
from on_rabbitmq import PATIENCE, QUEUE, asked, tell
from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq_aio_pika import AioPikaBroker, Queue

AT_ONCE, WINDOW = 1_000, 2_000


async def main() -> None:
    url, jobs, alone = asked()
    queue = Queue(name=QUEUE.format("taskiq"))
    broker = AioPikaBroker(url, qos=AT_ONCE, task_queues=[queue])
    all_ran, left = asyncio.Event(), jobs + alone

    @broker.task(task_name="nothing")
    async def nothing(n: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            all_ran.set()

    await broker.startup()
    started = time.perf_counter()
    for n in range(alone):
        await nothing.kiq(n)
    one_by_one = alone / (time.perf_counter() - started)
    started = time.perf_counter()
    for first in range(0, jobs, WINDOW):
        await asyncio.gather(*(nothing.kiq(n) for n in range(first, min(jobs, first + WINDOW))))
    many = jobs / (time.perf_counter() - started)
    await broker.shutdown()
    broker = AioPikaBroker(url, qos=AT_ONCE, task_queues=[queue])
    broker.register_task(nothing.original_func, task_name="nothing")
    started, spent = time.perf_counter(), time.process_time()
    working = asyncio.create_task(
        run_receiver_task(
            broker,
            validate_params=False,
            max_async_tasks=AT_ONCE,
            run_startup=True,
            ack_time=AcknowledgeType.WHEN_RECEIVED,
        )
    )
    async with asyncio.timeout(PATIENCE):
        await all_ran.wait()
    drained = (jobs + alone) / (time.perf_counter() - started)
    cpu = (time.process_time() - spent) / (jobs + alone) * 1e6
    working.cancel()
    tell(one_by_one, many, drained, cpu)


uvloop.run(main())
