"""What type checkers say of calls: `make check` lets mypy read this file, and nobody runs it.

`good` has no errors. Each line of `bad` has the one that it ignores: mypy also tells of a comment
that ignores nothing.
"""

# ruff: noqa: DTZ005, F841

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from mutirao import PROVIDED, DeadJob, Job, Mutirao, NewJob, OutcomeKind, Retry
from mutirao.tasks.around.middleware import AsyncAttemptSteps, AttemptSteps, EnqueueSteps

app = Mutirao()


@app.task
async def send(order_id: int, note: str = "") -> None: ...


@app.task(queue="mail", retry=Retry.fixed(3), timeout=timedelta(seconds=5))
def resize(path: str, *, width: int = 800) -> str:
    return path


@app.task
async def charge(job: Job, order_id: int) -> None:
    async with job.transaction() as session:
        await session.commit()
    async with job.transaction(session=False) as connection:
        await connection.exec_driver_sql("SELECT 1")


@app.task(max_attempts=1)
def plainly(job: Job, order_id: int) -> None:
    with job.transaction() as session:
        session.commit()


@app.task(keep_result=True)
async def measured() -> int:
    return 7


@send.on_dead
async def tell(dead: DeadJob) -> None: ...


@app.around_enqueue
def trace(job: NewJob) -> EnqueueSteps:
    handle = yield replace(job, traceparent=None)
    number: int = handle.id


@app.around_attempt
def measure(job: Job) -> AttemptSteps:
    outcome = yield
    kind: OutcomeKind = outcome.kind


@app.around_attempt
async def ameasure(job: Job) -> AsyncAttemptSteps:
    outcome = yield
    kind: OutcomeKind = outcome.kind


@app.around_handler
def hook(job: Job) -> Iterator[None]:
    yield


@app.around_handler
async def ahook(job: Job) -> AsyncIterator[None]:
    yield


class Session: ...


@app.provide
def open_session() -> Iterator[Session]:
    yield Session()


@app.provide
async def aopen_session(job: Job) -> Session:
    return Session()


@app.task
def paid(order_id: int, *, session: Session = PROVIDED) -> None: ...


async def good() -> None:
    paid.enqueue(7)
    paid(7, session=Session())
    send.enqueue(7)
    send.enqueue(order_id=7, note="x")
    resize.enqueue("a.png", width=80)
    charge.enqueue(7)
    plainly.enqueue(order_id=7)
    send.using(priority=3, delay=5.0, run_at=datetime.now()).enqueue(7)
    await send.using(conn=object()).aenqueue(order_id=7)
    await charge.aenqueue(7)
    job: NewJob = charge.using(key="k").job(7)
    app.enqueue_many([job, resize.job("a.png")])
    path: str = resize("a.png")
    await send(7)
    found: str = resize.enqueue("a.png").result(timeout=5)
    found = await resize.using(priority=3).enqueue("a.png").aresult()
    length: int = await (await measured.aenqueue()).aresult()
    found = app.result(7, of=resize)
    length = await app.aresult(7, timeout=5, of=measured)
    app.jobs(state="dead", limit=5)
    app.cancel(7, 8)
    app.worker(queues=["mail"], concurrency=4)


def bad(job: Job) -> None:
    """What a type checker refuses: each of these lines has the error that is ignored."""
    size: int = resize.enqueue("a.png").result()  # type: ignore[assignment]
    name: str = measured.enqueue().result()  # type: ignore[assignment]
    size = app.result(7, of=resize)  # type: ignore[assignment]
    send.delay(7)  # type: ignore[attr-defined]
    app.worker(concurrency="4")  # type: ignore[arg-type]
    app.worker(concurency=4)  # type: ignore[call-arg]
    app.jobs(stat="dead")  # type: ignore[call-arg]
    app.cancel(7, queue=7)  # type: ignore[arg-type]
    send.enqueue(order_id="x")  # type: ignore[arg-type]
    send.enqueue()  # type: ignore[call-arg]
    send.enqueue(7, 8)  # type: ignore[arg-type]
    send.enqueue(7, colour="red")  # type: ignore[call-arg]
    resize.enqueue("a.png", 80)  # type: ignore[call-arg]
    resize.enqueue("a.png", width="wide")  # type: ignore[arg-type]
    charge.enqueue(order_id="x")  # type: ignore[arg-type]
    charge.enqueue(job, 7)  # type: ignore[arg-type,call-arg]
    plainly.enqueue("x")  # type: ignore[arg-type]
    send.using(priority=3).enqueue("x")  # type: ignore[arg-type]
    charge.using(priority=3).enqueue()  # type: ignore[call-arg]
    send.using(priority="high")  # type: ignore[arg-type]
    send.using(colour=3)  # type: ignore[call-arg]
    send.using().job("x")  # type: ignore[arg-type]
    app.enqueue_many([send.enqueue("7")])  # type: ignore[arg-type,list-item]
    number: int = resize("a.png")  # type: ignore[assignment]
    resize(7)  # type: ignore[arg-type]
    app.around_enqueue(measure)  # type: ignore[type-var]
    app.around_attempt(trace)  # type: ignore[type-var]
    app.around_handler(tell)  # type: ignore[type-var]
    app.task(queue=7)  # type: ignore[call-overload]
    app.task(retry=3)  # type: ignore[call-overload]
