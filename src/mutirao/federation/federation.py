"""`Federation`: the object with which an application sends activities to other servers.

Its tasks are the application's: `federation.send` makes deliveries of an activity,
`federation.deliver` sends one to an inbox, `federation.probe` lets the next one through to a host
that was down.
"""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, Unpack
from urllib.parse import urlsplit

from mutirao.errors import ConfigurationError, InvalidTask
from mutirao.federation.couriers import Couriers
from mutirao.federation.delivering import ActivityDelivery, Deliverer, InboxGone, KeyOf
from mutirao.federation.outbox import Expand, Outbox, OutboxApp, Sender
from mutirao.model.federation.activities import RULE
from mutirao.model.federation.hosts import (
    BY,
    DELIVER,
    PROBE,
    SEND,
    HostState,
    is_heard_from,
    probe_is_due,
)
from mutirao.model.jobs.job import Job
from mutirao.model.jobs.records import DeadJob
from mutirao.model.jobs.retry import Retry, RetryPolicy
from mutirao.model.keys.supersede import Supersede
from mutirao.model.limits.limits import Limit, pace_of
from mutirao.ports import Store
from mutirao.tasks.options import Duration, length_of_time
from mutirao.tasks.registry import TaskRegistry
from mutirao.webhooks import Guard, Timeouts

if TYPE_CHECKING:
    from mutirao.engine.settings import WorkerTerms
    from mutirao.engine.workers.embedded import EmbeddedWorker

QUEUE = "federation"
WINDOW = 5.0  # seconds
AT_ONCE = 4  # requests to a host
KEPT_FOR = timedelta(days=7)  # results of deliveries
CONTENT_TYPE = 'application/ld+json; profile="https://www.w3.org/ns/activitystreams"'
_IN_ORDER = Supersede(by="sender", rules={})
# A delivery waits for its host for 30 days; a failure of our own code is given up before.
_PATIENT = RetryPolicy(1_000_000, lambda n, _: 60.0)
_RETRY = Retry.exponential(12, base=10.0, by_type={Retry: _PATIENT})
# Not the application's usual one: an activity that is not sent is lost, and nothing but its probe
# ends the wait for a host.
_OF_SENDS, _OF_PROBES = Retry.exponential(20), Retry.exponential(10_000, maximum=60.0)


@dataclass(frozen=True, slots=True)
class Gone:
    """An inbox that is not there any more.

    Parameters:
        inbox: its URL.
        job: the delivery that has found out.
        reason: the text of the answer.
    """

    inbox: str
    job: int
    reason: str


OnGone = Callable[[Gone], Awaitable[None] | None]
Window = Duration | Callable[[str], Duration]


class FederationApp(TaskRegistry, OutboxApp, Protocol):
    """The application, as federation sees it."""

    store: Store

    def worker(self, **settings: Unpack[WorkerTerms]) -> EmbeddedWorker:
        """Return a worker to run inside this program."""
        ...


class Federation:
    """The federation of an application; make one, beside the application's tasks.

    Parameters:
        app: whose database and workers it uses.
        keys: returns the `SigningKey` of a sender, when something is sent; it may be a coroutine
            function. A plain one must not block.
        expand: returns the inboxes of an actor or collection, as URLs or `ActorInbox`; None for
            what it does not know: that is taken for an inbox. It may be a coroutine function.
        on_gone: called with inboxes that answer 404 or 410, as a job of its own, which is retried.
        guard: which URLs are called; as usual `https` to public addresses.
        window: seconds (or a `timedelta`) that each delivery waits, so that what follows may make
            it redundant; or a function that returns them for the name of a host.
        concurrency: requests to a host at once; `app.hosts` gives a host another number.
        rate: deliveries to a host that start in any second at most, evenly; None: no limit.
        queue: of its tasks.
        timeouts: of a request.
        content_type: of activities.
        user_agent: how requests call themselves; the URL of your server is good manners.
        ssl_context: what certificates are trusted; as usual those that the system trusts.

    Raises:
        InvalidTask: the application has a federation already.
        ConfigurationError: `window` is no length of time; `keys`, `expand` or `on_gone` is no
            function.
        InvalidLimit: `concurrency` or `rate` is no number of deliveries.
    """

    def __init__(
        self,
        app: FederationApp,
        *,
        keys: KeyOf,
        expand: Expand | None = None,
        on_gone: OnGone | None = None,
        guard: Guard | None = None,
        window: Window = WINDOW,
        concurrency: int = AT_ONCE,
        rate: int | None = None,
        queue: str = QUEUE,
        timeouts: Timeouts | None = None,
        content_type: str = CONTENT_TYPE,
        user_agent: str = "Mutirao-Federation",
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        if DELIVER in app.tasks:
            raise InvalidTask("the application has a Federation already; use that one")
        if not callable(keys):
            raise ConfigurationError(
                f"keys is {keys!r:.100}; give a function that returns the SigningKey of a sender"
            )
        for name, given in (("expand", expand), ("on_gone", on_gone)):
            if given is not None and not callable(given):
                raise ConfigurationError(
                    f"{name} is {given!r:.100}; give a function, or leave it out"
                )
        delay = window if callable(window) else _same(_checked_window(window))
        self._app, self.queue, self._on_gone = app, queue, on_gone
        self._worker: EmbeddedWorker | None = None
        self._starting = Lock()
        limits = [Limit(concurrency, by=BY)]
        if rate is not None:
            Limit(rate, per=1.0)  # or it is no number of deliveries
            limits.append(Limit(1, **pace_of(rate)._asdict(), by=BY))
        self._deliverer = Deliverer(
            lambda: app.store,
            keys,
            Couriers(guard, ssl_context),
            queue=queue,
            timeouts=timeouts or Timeouts(),
            content_type=content_type,
            user_agent=user_agent,
        )
        self._register(expand, lambda host: _checked_window(delay(host)), limits)

    def _register(
        self, expand: Expand | None, window: Callable[[str], float], limits: list[Limit]
    ) -> None:
        """Register the tasks."""
        app, queue = self._app, self.queue

        @app.task(
            name=DELIVER,
            queue=queue,
            supersede=RULE,
            limit=limits,
            retry=_RETRY,
            timeout=None,  # its request has one
            keep_result=KEPT_FOR,
        )
        async def deliver(
            job: Job,
            host: str,
            inbox: str,
            kind: str,
            object: str,
            target: str,
            sender: str,
            activity: dict[str, Any],
        ) -> dict[str, Any]:
            what = ActivityDelivery(host, inbox, kind, object, target, sender, activity)
            return await self._deliverer.deliver(job, what)

        # Otherwise each delivery to a host that is given up would make a job that does nothing.
        if (on_gone := self._on_gone) is not None:

            @deliver.on_dead
            async def died(dead: DeadJob) -> None:
                await _report_if_gone(on_gone, dead)

        sends = Sender(app, deliver, expand, window)

        @app.task(
            name=SEND, queue=queue, supersede=_IN_ORDER, retry=_OF_SENDS, keep_result=KEPT_FOR
        )
        async def send(
            job: Job, activity: dict[str, Any], to: list[str], sender: str
        ) -> dict[str, Any]:
            return await sends.send(job, activity, to, sender)

        @app.task(name=PROBE, queue=queue, retry=_OF_PROBES)
        async def probe(host: str, heard: bool = False) -> None:
            await self._probe(host, heard)

        self._probe_task = probe
        self.outbox = Outbox(send)

    async def heard_from(self, actor: str) -> None:
        """Let a delivery through to the host of an actor, if it was down.

        To be called when a request of that actor was verified. It costs a read of the host's row.

        Parameters:
            actor: the URL that `verify` has returned; or that of its inbox, if on another host.
        """
        host = urlsplit(actor).hostname
        known = await self._app.store.federation.host(host) if host else None
        if known is not None and not (known.state is HostState.UP and known.next_probe is None):
            call = self._probe_task.using(key=f"heard {host}"[:200])
            await call.aenqueue(host=known.name, heard=True)

    # A worker inside the program

    def start(self, **settings: Unpack[WorkerTerms]) -> EmbeddedWorker:
        """Start a worker of the federation's queue in a thread, once; return it.

        A second start in the same process returns the running one. A forked child starts its own.

        Parameters:
            settings: the fields of `WorkerSettings`; `queues` is the federation's unless given.

        Raises:
            SchemaError, StoreUnavailable, ConfigurationError: it could not start.
        """
        with self._starting:
            if self._worker is None or not self._worker.running:
                chosen: WorkerTerms = {"queues": [self.queue], **settings}
                self._worker = self._app.worker(**chosen)
                self._worker.start()
            return self._worker

    def stop(self) -> None:
        """Stop the worker that `start` has started, gracefully; do nothing if there is none."""
        with self._starting:
            if self._worker is not None:
                self._worker.stop()
                self._worker = None

    async def _probe(self, host: str, heard: bool) -> None:
        await self._app.store.federation.change_host(
            host,
            lambda was, now: is_heard_from(was) if heard else probe_is_due(was, now),
            queue=self.queue,
        )


async def _report_if_gone(on_gone: OnGone, dead: DeadJob) -> None:
    if not (dead.error_type or "").endswith(InboxGone.__name__):
        return
    result = on_gone(Gone(dead.args["inbox"], dead.id, dead.error or ""))
    if inspect.isawaitable(result):
        await result


def _checked_window(window: Duration) -> float:
    seconds = length_of_time("window", window) or 0.0
    if not 0 <= seconds <= 86_400:
        raise ConfigurationError(f"window is {window!r}; give 0 to 86,400 seconds")
    return seconds


def _same(seconds: float) -> Callable[[str], float]:
    return lambda host: seconds
