"""The workers of an application, and the databases that they serve: what `Mutirao` has of it.

The engine is imported when a worker is made: programs that only enqueue need none of it, and a
worker without brokers, or of one database, nothing of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from importlib.metadata import version
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from sqlalchemy import URL

from mutirao.errors import ConfigurationError
from mutirao.model.jobs.job import Home, Job, NewJob
from mutirao.model.webhooks.webhook_names import PROBE_TASK, WEBHOOK_TASK
from mutirao.ports import Notifier, Store, Transport
from mutirao.ports.announcements import Announces
from mutirao.sql.connections.budget import Budget
from mutirao.sql.connections.listed import named
from mutirao.sql.connections.tenants import Tenants
from mutirao.sql.connections.urls import shown
from mutirao.sql.store.hub import AnnouncingStore
from mutirao.sql.store.jobs import SqlStore
from mutirao.tasks.around.middleware import AttemptMiddleware
from mutirao.tasks.options import Duration, length_of_time
from mutirao.tasks.task import Task

if TYPE_CHECKING:
    from dataclasses import Field

    from mutirao.client.limits import Limits
    from mutirao.client.schedules import Schedules
    from mutirao.engine.brokers.carried_queues import CarriedQueues
    from mutirao.engine.measurement_listeners import Listeners
    from mutirao.engine.settings import RelayTerms, WorkerSettings, WorkerTerms
    from mutirao.engine.workers.broker_queues import BrokerWorker
    from mutirao.engine.workers.database import Worker
    from mutirao.engine.workers.embedded import EmbeddedWorker
    from mutirao.engine.workers.lifecycle import Service
    from mutirao.engine.workers.shared_slots import SharedSlots
    from mutirao.model.brokers.foreign import Decode
    from mutirao.model.limits.limits import Rule
    from mutirao.model.schedules.schedule import Schedule
    from mutirao.model.webhooks.webhook_attempts import WebhookSettings
    from mutirao.ports.measurements import Measurements
    from mutirao.tasks.registry import TopicApp
    from mutirao.webhooks.deliveries import Deliveries

Provider = TypeVar("Provider", bound=Callable[..., Any])

EXIT_WHEN_STUCK = 30.0  # seconds; for a worker that is the whole process
TENANT_EXPIRY = 300.0  # seconds for which it is remembered where a tenant's database is
KEPT_OF_EACH = 2  # connections of a kind that are kept of each database, where there are several
CONNECTIONS_BESIDE_HANDLERS = 4  # for claiming, settling and housekeeping, and a spare one


class Workers:
    """The part of `Mutirao` that is about workers and what they serve."""

    store: Store
    transports: Mapping[str, Transport]
    decoders: Mapping[str, Decode]
    limits: Limits
    _notifier: Notifier | None
    _tasks: Mapping[str, Task[..., Any]]
    _around_attempt: Sequence[AttemptMiddleware]
    _databases: Callable[[], Any] | None
    _tenants: Tenants | None
    _signers: dict[str, Callable[..., Any]]
    _measured_by: list[Measurements]

    @property
    def schedules(self) -> Schedules:
        """The schedules in the database."""
        raise NotImplementedError

    def databases(self, provider: Provider) -> Provider:
        """Register a function that lists the databases which a worker serves, instead of one.

        A worker asks it when it starts, where an error ends it, and at every heartbeat from then
        on: what is new is served, and what is not listed any more is drained. It goes on with those
        that it knows while the function fails. One that cannot be served waits by itself. Jobs are
        enqueued as before: in the application's own database, or through `conn=` in any.

        Parameters:
            provider: takes nothing and returns URLs. A plain function is called in a thread, a
                coroutine function is awaited.
        """
        self._databases = provider
        return provider

    @property
    def lists_databases(self) -> bool:
        """Whether a function that lists the databases was registered."""
        return self._databases is not None

    async def alisted_databases(self) -> dict[str, str] | None:
        """Return what is listed, as `databases` registers it: by its URL what may be shown of it.

        None: nothing is registered, so there is the application's own database only.

        Raises:
            ConfigurationError: what is listed is no list of URLs.
        """
        if self._databases is None:
            return None
        answer = await asyncio.to_thread(self._databases)
        return named(await answer if isawaitable(answer) else answer)

    def another_database(self, url: str, *, within: float | None = None) -> Store:
        """Return a handle on one that is listed, with one connection; the caller closes it."""
        return self._sql_store.elsewhere(url, 1, within=within)

    @overload
    def tenant_database(self, resolve: Provider, /) -> Provider: ...
    @overload
    def tenant_database(
        self, *, by: Callable[[Job], Hashable] | None = None, expires: Duration = TENANT_EXPIRY
    ) -> Callable[[Provider], Provider]: ...
    def tenant_database(
        self,
        resolve: Provider | None = None,
        *,
        by: Callable[[Job], Hashable] | None = None,
        expires: Duration = TENANT_EXPIRY,
    ) -> Provider | Callable[[Provider], Provider]:
        """Register the function that says where the database of a job's tenant is.

        `job.tenant_connection()` asks it, and opens a transaction there. It takes the `Job` and
        returns a URL, which is never logged. A plain function is called in a thread; a coroutine
        function is for coroutines only.

        Parameters:
            by: takes the `Job` and returns which tenant it is of. With it an answer is remembered
                for the tenant; without it the function is called each time.
            expires: the seconds (or a `timedelta`) for which an answer is remembered.

        Raises:
            ConfigurationError: `expires` is no length of time.
        """
        seconds = length_of_time("expires", expires) or 0.0
        if seconds <= 0:
            raise ConfigurationError(f"expires is {expires!r}; give more than 0 seconds")

        def register(resolve: Provider) -> Provider:
            self._tenants = Tenants(resolve, by, seconds)
            return resolve

        return register if resolve is None else register(resolve)

    def signer(self, name: str) -> Callable[[Provider], Provider]:
        """Register a function that signs webhooks: `@app.signer("legacy")`.

        Endpoints that name it (`signer="legacy"`) are signed by it, instead of by a secret. It is
        a `mutirao.webhooks.Signer`: it gets method, URL, headers and body each time a request is
        sent, and returns the headers to add. It is called in the event loop.

        Parameters:
            name: what endpoints call it.

        Raises:
            ConfigurationError: the name is taken, or none.
        """
        if not isinstance(name, str):
            raise ConfigurationError(
                f'@app.signer was given {name!r} in place of a name; write @app.signer("legacy")'
            )
        if name in self._signers:
            raise ConfigurationError(
                f"there is a signer {name!r} already; give one of them another"
            )

        def register(sign: Provider) -> Provider:
            self._signers[name] = sign
            return sign

        return register

    def measure(self, listener: Measurements) -> None:
        """Report to a listener what the workers of this application do, from the next one on.

        It is called with batches, in the event loop of a worker, so it must not wait; what it
        raises is logged, and jobs go on. Several may listen. See `mutirao.ports.measurements`.

        Parameters:
            listener: a `Measurements`.
        """
        self._measured_by.append(listener)

    def worker(self, **settings: Unpack[WorkerTerms]) -> EmbeddedWorker:
        """Return a worker to run inside this program: `async with`, `with`, or `start`/`stop`.

        Parameters:
            settings: the fields of `WorkerSettings`: queues, concurrency, grace, poll, …

        Raises:
            ConfigurationError: `queues` is a text instead of a list.
        """
        from mutirao.engine.settings import WorkerSettings
        from mutirao.engine.workers.embedded import EmbeddedWorker

        chosen = WorkerSettings.of(settings)
        return EmbeddedWorker(lambda: self._make_worker(chosen))

    def run_worker(self, **settings: Unpack[WorkerTerms]) -> int:
        """Run a worker in this process until a signal stops it; return an exit status.

        0: it was stopped. 2: a broker cannot be used as it is configured. 3: the schema does not
        fit any more. 5: one of its loops failed. 6: handlers that do not end held all slots for
        `exit_when_stuck` seconds (30 unless given). 7: it was ended by force, because handlers did
        not end within `grace` plus 15 seconds. 8: it could start no child process, or no thread,
        for handlers.
        """
        from mutirao.engine.settings import WorkerSettings
        from mutirao.engine.workers.process import run

        chosen = WorkerSettings.of({"exit_when_stuck": EXIT_WHEN_STUCK, **settings})
        return run(lambda: self._make_worker(chosen))

    def relay(self, together: int = 1, **settings: Unpack[RelayTerms]) -> EmbeddedWorker:
        """Return what carries due jobs of carried queues to their brokers, and runs none of them.

        It runs inside this program, as a `worker` does, and keeps house as workers do, but deletes
        nothing: how long is kept what has finished is a matter of workers.

        Parameters:
            together: the doorbells of one message, 1 to 50. It measures no durations, by which a
                worker chooses: more than 1 is for short jobs, of which a message is held by one
                worker.
            settings: the fields of `WorkerSettings` that concern it: queues (of those that are
                carried; all, if left out), exclude_queues, grace, poll, heartbeat, expiry,
                doorbell_grace, connections, metrics_port, metrics_host.

        Raises:
            ConfigurationError: a queue is not carried, or none is; a setting is out of range.
        """
        from mutirao.engine.workers.embedded import EmbeddedWorker

        chosen = self._relay_settings(together, settings)
        return EmbeddedWorker(lambda: self._make_relay(chosen, together))

    def run_relay(self, together: int = 1, **settings: Unpack[RelayTerms]) -> int:
        """Run a `relay` in this process until a signal stops it; return an exit status.

        The statuses are those of `run_worker`; the parameters are those of `relay`.
        """
        from mutirao.engine.workers.process import run

        chosen = self._relay_settings(together, settings)
        return run(lambda: self._make_relay(chosen, together))

    def home(self, url: URL | None = None, budget: Budget | None = None) -> Home:
        """Return what handlers know of the database at a URL; None: the application's own.

        `budget`: of which connections to tenants are, if there is one.
        """
        if url is None and isinstance(self.store, SqlStore):
            url = self.store.engines.given
        name = "" if url is None else shown(url)
        if self._tenants is None:
            return Home(name)
        return Home(name, partial(self._tenants.open, budget=budget))

    def _make_worker(self, settings: WorkerSettings) -> Service:
        from mutirao.engine.measurement_listeners import heard
        from mutirao.engine.workers.checks import refuse_patched

        refuse_patched()
        listeners = heard([*self._measured_by, *_ports(settings)])
        return _measured(self._make_unmeasured(settings, listeners), listeners, self._tasks)

    def _make_unmeasured(self, settings: WorkerSettings, listeners: Listeners | None) -> Service:
        """Return the worker as a whole; `listeners`: what its parts report to."""
        if all(each.mode != "alone" for each in self.transports.values()):
            return self._make_sql_worker(settings, None, listeners)
        from mutirao.engine.workers.broker_queues import served_alone
        from mutirao.engine.workers.combined import CombinedWorker
        from mutirao.engine.workers.shared_slots import SharedSlots

        carried = served_alone(self.transports, settings, self._tasks)
        if carried and self._databases is not None:
            raise ConfigurationError(
                f"this application lists its databases, and queues {', '.join(sorted(carried))} are"
                " by broker alone; give them a worker of an application without @app.databases"
            )
        if not carried:
            return self._make_sql_worker(settings, None, listeners)
        if settings.queues is not None and {*settings.queues} == carried.keys():
            _check_can_hear(settings, carried)
            return self._carrying(carried, settings, None, listeners)
        shared = SharedSlots(settings)
        worker = self._make_sql_worker(settings, shared, listeners)
        carrying = self._carrying(carried, settings, shared, listeners)
        return CombinedWorker(worker, carrying, shared)

    def _relay_settings(self, together: int, terms: RelayTerms) -> WorkerSettings:
        """Return the settings of a worker that only relays; it has no slots, and deletes nothing.

        A default here would delete what the workers' settings keep.
        """
        from mutirao.engine.brokers.carried_queues import check_doorbells_per_message
        from mutirao.engine.settings import WorkerSettings

        check_doorbells_per_message(together)
        kept: WorkerTerms = {"retention": {}}
        kept |= {"keep_hours": None, "keep_inbox": None, "keep_said": None, "keep_audit": None}
        whole = {**terms, **kept, "concurrency": 1}
        settings = WorkerSettings.of(cast("WorkerTerms", whole))
        carried = self._carried(settings)
        if strange := {*(settings.queues or ())} - carried.keys():
            raise ConfigurationError(
                f"no broker carries queue {', '.join(sorted(strange))} for this application; give"
                ' queues that have a transport with mode="carried"'
            )
        if not carried:
            raise ConfigurationError(
                "no broker carries a queue for this application, so there is nothing to relay; give"
                ' Mutirao(transports={"mail": RabbitMQ(…, mode="carried")})'
            )
        return replace(settings, queues=tuple(carried), exclude_queues=None)

    def _carrying(
        self,
        carried: Mapping[str, Transport],
        settings: WorkerSettings,
        shared: SharedSlots | None,
        listeners: Listeners | None,
    ) -> BrokerWorker:
        from mutirao.client.kept_schedules import kept_schedules
        from mutirao.engine.workers.app_declarations import AppDeclarations
        from mutirao.engine.workers.broker_queues import BrokerQueues, BrokerWorker

        kept = kept_schedules(self.schedules.declared(), carried, settings.tasks)
        queues = BrokerQueues(carried, self.decoders, kept)
        code = AppDeclarations(self._tasks, self._around_attempt, listeners=listeners)
        return BrokerWorker(queues, code, settings, self._write_late, shared)

    async def _write_late(self, job: NewJob) -> int:
        """Write what a broker does not hold for that long; a worker of the database runs it."""
        [id] = await self.store.aenqueue([job], None)
        return id

    def _make_sql_worker(
        self,
        settings: WorkerSettings,
        shared: SharedSlots | None,
        listeners: Listeners | None,
        queues: CarriedQueues | None = None,
    ) -> Service:
        """Return the worker of the database, or of several; `queues`: if it only relays."""
        budget = Budget(settings.connections) if settings.connections else None
        if self._databases is not None:
            from mutirao.engine.workers.several_databases import Fleet

            make = partial(self._make_member, settings, budget, listeners)
            check, names = partial(self._check, settings), partial(named, budget=budget)
            return Fleet(self._databases, names, make, settings, check)
        connections = settings.concurrency + CONNECTIONS_BESIDE_HANDLERS
        store = self.store.clone(connections, within=settings.call_limit)
        notifier = _of_hub(store, settings) or self._notifier
        if budget is not None and isinstance(store, SqlStore):
            store.engines.limit(budget)
            if notifier is self._notifier:
                notifier = notifier and store.listener()
        queues = queues or self._queues(settings)
        home = self.home(budget=budget)
        return self._worker_of(store, notifier, settings, home, queues, shared, listeners)

    def _make_relay(self, settings: WorkerSettings, together: int) -> Service:
        from mutirao.engine.measurement_listeners import heard

        queues = self._queues(settings, together)
        listeners = heard([*self._measured_by, *_ports(settings)])
        return _measured(self._make_sql_worker(settings, None, listeners, queues), listeners, {})

    def _make_member(
        self,
        settings: WorkerSettings,
        budget: Budget | None,
        listeners: Listeners | None,
        url: str,
        shared: SharedSlots,
    ) -> Worker:
        """Return the worker of one of several databases."""
        store = self._sql_store.elsewhere(url, KEPT_OF_EACH, within=settings.call_limit)
        store.engines.limit(budget)
        home = self.home(store.engines.given, budget)
        notifier = _of_hub(store, settings) or store.listener()
        queues = self._queues(settings)
        return self._worker_of(store, notifier, settings, home, queues, shared, listeners)

    def _worker_of(
        self,
        store: Store,
        notifier: Notifier | None,
        settings: WorkerSettings,
        home: Home,
        queues: CarriedQueues,
        shared: SharedSlots | None,
        listeners: Listeners | None,
    ) -> Worker:
        from mutirao.engine.workers.app_declarations import AppDeclarations
        from mutirao.engine.workers.database import Worker

        tasks = self._tasks
        limits: Callable[[], Sequence[Rule]] = self.limits.declared
        sending = self._sending(store, settings.webhooks, settings.concurrency)
        if sending is not None:
            for name in (WEBHOOK_TASK, PROBE_TASK):
                if name in tasks:
                    raise ConfigurationError(
                        f"{tasks[name]!r} is called like a task that delivers webhooks; call it"
                        " otherwise"
                    )
            tasks = {**sending.tasks(cast("TopicApp", self)), **tasks}
            limits = partial(_both, limits, sending.limits)
        around, its = self._around_attempt, version("mutirao")
        code = AppDeclarations(tasks, around, self._schedules_in_sql, limits, its, listeners)
        worker = Worker(store, notifier, code, settings, home, queues, shared)
        worker.at_close += [sending.aclose] if sending else []
        return worker

    def _schedules_in_sql(self) -> tuple[Schedule, ...]:
        declared = self.schedules.declared()
        if not self.transports:
            return tuple(declared)
        from mutirao.client.kept_schedules import keeper

        return tuple(each for each in declared if keeper(each, self.transports) is None)

    def _sending(
        self, store: Store, settings: WebhookSettings | None, slots: int
    ) -> Deliveries | None:
        if settings is None:
            return None
        # The only place where its packages are needed, which are an extra.
        from mutirao.webhooks.deliveries import Deliveries

        return Deliveries(store, settings, self._signers, slots)

    def _queues(self, settings: WorkerSettings, relayed: int = 0) -> CarriedQueues:
        """Return the carried queues; `relayed`: in so many doorbells at once, and nothing else."""
        from mutirao.engine.brokers.carried_queues import CarriedQueues

        carried = self._carried(settings)
        return CarriedQueues(carried, True, relayed) if relayed else CarriedQueues(carried)

    def _carried(self, settings: WorkerSettings) -> dict[str, Transport]:
        """Return the brokers of the carried queues that a worker serves, by queue."""
        found = {name: each for name, each in self.transports.items() if each.mode == "carried"}
        if found and self._databases is not None:
            raise ConfigurationError(
                f"queues {', '.join(found)} are carried by brokers, and this application lists its"
                " databases: a doorbell does not say in which of them its job is. Serve one"
                " database, or leave these queues to SQL"
            )
        return {name: each for name, each in found.items() if settings.serves(name)}

    def _check(self, settings: WorkerSettings) -> None:
        """Raise if no worker can run what the code declares, whatever the database."""
        from mutirao.engine.workers.checks import check_tasks

        check_tasks(self._tasks, settings.tasks)
        self.schedules.declared()
        self.limits.declared()
        self._sql_store  # noqa: B018 (raises if the databases could have no tables)

    @property
    def _sql_store(self) -> SqlStore:
        if not isinstance(self.store, SqlStore):
            raise ConfigurationError(
                f"this application keeps its jobs in a {type(self.store).__name__}, which has no"
                " tables; give Mutirao(url) a database"
            )
        return self.store


def _check_can_hear(settings: WorkerSettings, carried: Mapping[str, Transport]) -> None:
    if settings.drain_on_new_version and not any(
        isinstance(each, Announces) for each in carried.values()
    ):
        names = ", ".join(sorted({each.name for each in carried.values()}))
        raise ConfigurationError(
            f"drain_on_new_version is set, and by {names} workers hear nothing of each other; serve"
            " a queue of the database, too, or stop it by SIGTERM"
        )


def _ports(settings: WorkerSettings) -> Iterator[Measurements]:
    """Yield what serves the metrics of a worker, if that is asked for."""
    if settings.metrics_port is None:
        return
    from mutirao.telemetry.prometheus.listener import WorkerPort  # which needs an extra

    yield WorkerPort(settings.metrics_host, settings.metrics_port)


def _measured(
    service: Service, listeners: Listeners | None, tasks: Mapping[str, Task[..., Any]]
) -> Service:
    """Return a worker that is measured as a whole; `tasks`: those that it may run."""
    if listeners is not None:
        settings = service.settings
        pairs = [(task.options.queue, name) for name, task in tasks.items()]
        served = [pair for pair in pairs if settings.served.has(*pair)]
        queues = {queue for queue, _ in served} | {*(settings.queues or ())}
        service.listeners, service.served = listeners, (sorted(queues), sorted(served))
    return service


def _both(
    some: Callable[[], Sequence[Rule]], others: Callable[[], Sequence[Rule]]
) -> Sequence[Rule]:
    return [*some(), *others()]


def _of_hub(store: Store, settings: WorkerSettings) -> Notifier | None:
    """Return the notifier of the hub that gets a database's announcements; None without a hub."""
    if not isinstance(store, AnnouncingStore) or not store.hub.listens:
        return None
    from mutirao.hub.protocol import Serves

    return store.hub.notifier(
        Serves(settings.queues, settings.exclude_queues or (), settings.tasks), settings.poll
    )


if TYPE_CHECKING:
    from mutirao.engine.workers.service_manager import (
        READY as READY,  # for the command line
        STOPPING as STOPPING,
        ServiceManager as ServiceManager,
    )

    SETTINGS: tuple[Field[Any], ...]
    RELAY_SETTINGS: tuple[str, ...]


def __getattr__(name: str) -> Any:
    """Return what the command line needs of the engine, once it asks."""
    if name in ("SETTINGS", "RELAY_SETTINGS"):  # of which it makes options
        from mutirao.engine.settings import RelayTerms, WorkerSettings

        return fields(WorkerSettings) if name == "SETTINGS" else (*RelayTerms.__annotations__,)
    if name in ("READY", "STOPPING", "ServiceManager"):
        from mutirao.engine.workers import service_manager

        return getattr(service_manager, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
