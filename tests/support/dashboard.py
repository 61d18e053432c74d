"""A shop with a past, for the dashboard: jobs in every state, workers, schedules, limits.

Everything is made through the application and its store; nothing runs afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from mutirao import Limit, Mutirao, Retry, chain
from mutirao.model.brokers.message import Bury, Cause
from mutirao.model.jobs.job import KeptResult, NewWorker, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome
from mutirao.ports import Store
from mutirao.transports.memory import MemoryTransport
from tests.support.history import claim

SECRET = "hunter2-and-more"  # of arguments and errors, which no page may show


_REFUSED = (
    "ConnectionError",
    f"""smtp://mailer:{SECRET}@mail.example refused the connection

Traceback (most recent call last):
  File "/srv/shop/tasks.py", line 48, in send_receipt
    with mail.connected(settings.SMTP_URL) as server:
         ~~~~~~~~~~~~~~^^^^^^^^^^^^^^^^^^^
  File "/srv/shop/mail.py", line 21, in connected
    raise ConnectionError(f"{{url}} refused the connection")
ConnectionError: smtp://mailer:{SECRET}@mail.example refused the connection""",
)
_NO_ADDRESS = "ValueError: nobody is no address"


@dataclass(frozen=True)
class Shop:
    """The application, and the ids of some of its jobs."""

    app: Mutirao
    dead: int
    running: int
    scheduled: int
    ready: int
    blocked: int
    succeeded: int
    reported: int

    @property
    def by_state(self) -> dict[str, int]:
        """The ids by states."""
        return {name: getattr(self, name) for name in _STATES}


_STATES = ("dead", "running", "scheduled", "ready", "blocked", "succeeded", "reported")


def application(url: str) -> Mutirao:
    """Return the shop's application."""
    app = Mutirao(url, transports={"letters": MemoryTransport()})

    @app.task(queue="mail", retry=Retry.fixed(3, interval=0.001))
    def send_receipt(order_id: int, to: str, password: str = "") -> None:
        if order_id % 4 == 0:
            raise ConnectionError(f"smtp://mailer:{SECRET}@mail.example refused the connection")

    @app.task(queue="mail", retry=Retry.fixed(1))
    def send_newsletter(to: str) -> None:
        raise ValueError(f"{to} is no address")

    @app.task(queue="media")
    def resize_photo(path: str, width: int = 800) -> str:
        return f"{path}.{width}"

    @app.task(queue="reports", keep_result=True, limit=Limit(2))
    def monthly_report(month: str) -> dict[str, Any]:
        return {"month": month, "rows": 1_234}

    @app.task(queue="stock")
    def sync_stock(warehouse: str) -> None: ...

    @app.task(queue="letters")
    def print_letter(to: str, token: str = "") -> None: ...

    app.schedule("30 3 * * *", timezone="America/Sao_Paulo", name="nightly report")(nightly_report)
    app.schedule(every=timedelta(minutes=15), name="price feeds")(price_feeds)
    return app


async def bury(app: Mutirao, *names: str) -> None:
    """Have letters to these die at their broker, which is in memory of this process."""
    broker = app.transports["letters"]
    await broker.declare(["letters"])
    for name in names:
        await app.task_named("print_letter").aenqueue(to=name, token=SECRET)
    async with broker.consumer("letters", len(names), lambda _: None) as consumer:
        left = len(names)
        while left:
            found = await consumer.receive(left)
            cause = Cause(
                error_type="OSError",
                error=f"printer://lpr:{SECRET}@hall is out of paper",
                attempts=3,
            )
            await consumer.settle([Bury(each, cause) for each in found])
            left -= len(found)


def nightly_report() -> None:
    """Nothing."""


def price_feeds() -> None:
    """Nothing."""


async def filled(url: str) -> Shop:
    """Return the shop, in a database that has Mutirão's tables and nothing in them."""
    app = application(url)
    enqueue, store, tasks = app.aenqueue_many, app.store, app.tasks
    receipt, photo, report = tasks["send_receipt"], tasks["resize_photo"], tasks["monthly_report"]
    worker = await _worker(app, "app-1:2114", ("mail", "media", "stock"))
    await _worker(app, "app-2:2093", ("mail", "reports"))
    done = await enqueue([photo.job(path=f"/photos/{each}.jpg") for each in range(250)])
    done += await enqueue(
        [receipt.job(order_id=each, to="rui@example.com") for each in range(9, 13)]
    )
    await _past(store, worker)
    done += await enqueue([report.job(month=f"2026-{each:02}") for each in range(1, 8)])
    told = KeptResult('{"rows": 1234, "token": "' + SECRET + '"}')
    await _work(store, worker, replace(SUCCEEDED, result=told))
    failing = [receipt.job(order_id=4 * each, to="ana@example.com", password=SECRET)
               for each in range(1, 6)]  # fmt: skip
    dead = await enqueue(failing)
    again = Outcome(OutcomeKind.RETRIED, after=0.0, error_type=_REFUSED[0], error=_REFUSED[1])
    for outcome in (again, again, replace(again, kind=OutcomeKind.DEAD, after=None)):
        await _work(store, worker, outcome)
    await enqueue([tasks["send_newsletter"].job(to="nobody")])
    await _work(
        store, worker, Outcome(OutcomeKind.DEAD, error_type="ValueError", error=_NO_ADDRESS)
    )

    await _declare(app)
    for record in await app.schedules.alist():
        await app.schedules.arun_now(record.name)
    await _work(store, worker)
    [running, *_] = await enqueue([tasks["sync_stock"].job(warehouse="Recife")] * 2)
    await claim(store, worker, 2)
    orders = [receipt.job(order_id=77 + each, to="bia@example.com") for each in range(8)]
    [ready, *_] = await enqueue(orders)
    [scheduled, *_] = await enqueue([
        receipt.using(delay=3_600.0 * each, tags=["spring", "vip"], tenant="acme").job(
            order_id=each, to="leo@example.com")
        for each in range(1, 13)
    ])  # fmt: skip
    handle = await app.aenqueue_graph(
        chain(photo.job(path="/new/kite.png"), report.job(month="2026-10")),
        name="photo, then report",
    )
    await app.apause(queue="media")
    return Shop(app, dead[0], running, scheduled, ready, handle.jobs[1].id, done[0], done[-1])


async def _work(store: Store, worker: int, outcome: Outcome = SUCCEEDED) -> None:
    """Let all due jobs end in the same way, each after some milliseconds."""
    due = await claim(store, worker, 100)
    await store.settle(
        worker, [each._replace(outcome=outcome, started_ago=0.004, linked=True) for each in due]
    )


async def _past(store: Store, worker: int) -> None:
    """Let all due jobs end one after another during the last day, most of them in the last hour."""
    due = await claim(store, worker, 300)
    failed = Outcome(OutcomeKind.DEAD, error_type="TimeoutError", error="TimeoutError: no answer")
    ended = []
    for place, each in enumerate(due):
        hours, minutes = place * place % 23, place * 37 % 60
        ago = 60.0 * minutes + (3_600.0 * hours if place % 5 else 0.0)
        outcome = failed if place in (31, 74, 75, 110, 135, 211) else SUCCEEDED
        ended.append(each._replace(outcome=outcome, started_ago=ago + 1.5, finished_ago=ago))
    await store.settle(worker, ended)


async def _declare(app: Mutirao) -> None:
    """Put what workers and operators would put."""
    for each in app.schedules.declared():
        when: Any = {"cron": each.cron} if each.cron else {"every": each.every}
        await app.schedules.aput(each.name, each.job, timezone=each.timezone, **when)
    await app.limits.aput(Limit(2), task="monthly_report")
    await app.hosts.ahold("social.example")

    @app.subscriber("index", topic="order.*")
    def index(order: dict[str, Any]) -> None: ...

    app.topic("order.placed")
    await app.subscriptions.aput("index orders", index, "order.*")
    await app.endpoints.aput(
        "warehouse", f"https://warehouse.example/hooks?token={SECRET}", ["order.*"],
        secret="whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfgh01FGpY=",
        headers={"Authorization": f"Bearer {SECRET}"},
    )  # fmt: skip


async def _worker(app: Mutirao, name: str, queues: tuple[str, ...]) -> int:
    host, _, pid = name.partition(":")
    new = NewWorker(
        name=name, host=host, pid=int(pid), queues=queues, concurrency=8, version="0.1.0"
    )
    return await app.store.register(new, expiry=86_400)
