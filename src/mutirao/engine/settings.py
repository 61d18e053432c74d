"""A worker's settings with the reasons for their defaults, and what it registers.

A setting is defined only here: its bounds are checked, and its command-line option is generated,
from its field. `WorkerTerms` repeats them for type checkers; a test compares both.
"""

import os
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Annotated, Any, Literal, Self, TypedDict, get_args, get_origin

from mutirao.aio import MAX_WAIT
from mutirao.errors import ConfigurationError, InvalidJob
from mutirao.model.deploys import Served, is_version
from mutirao.model.jobs.job import MAX_QUEUE_NAME, MAX_TASK_NAME, NewWorker, OutcomeKind
from mutirao.model.jobs.retry_words import ACCEPTED_FORMS
from mutirao.model.webhooks.webhook_attempts import WebhookSettings
from mutirao.model.webhooks.webhook_names import WEBHOOK_QUEUE, WEBHOOK_TASK
from mutirao.ports.measurements import LAST_PORT
from mutirao.tasks.defaults import DefaultsInWords
from mutirao.tasks.validation import check_text

JobLogMode = Literal["all", "auto", "failures"]


DAY = timedelta(days=1)
MAX_SLOTS = 100_000
MIN_CONNECTIONS = 3  # of one database: its heartbeat's, for a statement, for a transaction
MIN_TURN_LIMIT = 90.0  # seconds; SQLite waits 30 for another writer


def _retention() -> dict[OutcomeKind, timedelta | None]:
    return {
        OutcomeKind.SUCCEEDED: 7 * DAY,
        OutcomeKind.CANCELLED: 7 * DAY,
        OutcomeKind.DEAD: 90 * DAY,
    }


class RelayTerms(TypedDict, total=False):
    """The fields of `WorkerSettings` that a worker which only relays uses, as keyword arguments."""

    queues: Iterable[str] | None
    exclude_queues: Iterable[str] | None
    grace: float
    poll: float
    heartbeat: float
    expiry: float
    doorbell_grace: float
    connections: int | None
    metrics_port: int | None
    metrics_host: str


class WorkerTerms(RelayTerms, total=False):
    """The fields of `WorkerSettings` as keyword arguments."""

    tasks: Iterable[str] | None
    concurrency: int
    prefetch: float
    batch: int
    linger: float
    exit_when_stuck: float | None
    log_jobs: JobLogMode
    retry: str | None
    max_attempts: int | None
    timeout: float | None
    retention: dict[OutcomeKind, timedelta | None]
    keep_hours: timedelta | None
    keep_inbox: timedelta | None
    keep_said: timedelta | None
    keep_audit: timedelta | None
    prune_batch: int
    webhooks: bool | WebhookSettings
    app_version: str | None
    drain_on_new_version: bool


@dataclass(frozen=True, slots=True)
class Option:
    """The properties of a setting besides its type and its default.

    Parameters:
        help: its text on the command line; None: it has no option there.
        least: the smallest number that it may be.
        above: a number that it must be greater than.
        short: a short option.
    """

    help: str | None = None
    least: float | None = None
    above: float | None = None
    short: str | None = None

    def check(self, name: str, value: float | None) -> None:
        """Raise ConfigurationError if a value is too small."""
        if value is not None and self.least is not None and value < self.least:
            raise ConfigurationError(f"{name} is {value}; give {self.least:g} or more")
        if value is not None and self.above is not None and value <= self.above:
            raise ConfigurationError(f"{name} is {value} seconds; give more than {self.above:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of a worker. All durations are in seconds, except `retention`,
    `keep_hours`, `keep_inbox`, `keep_said` and `keep_audit`.

    Parameters:
        queues: the queues to serve; None means all of them.
        exclude_queues: queues not to serve, instead of `queues`; None means none.
        tasks: the names of the tasks to serve; None means all that the application has. Jobs of
            others are left to other workers: they are not claimed, and no attempt is counted.
        concurrency: the number of handlers that run at once.
        grace: how long running handlers may continue after a stop was requested.
        poll: the longest sleep of an idle worker; wake-ups shorten it.
        heartbeat: the time between heartbeats.
        expiry: a worker whose last heartbeat is older is considered gone. Two beats may fail.
        prefetch: how much work to hold ready, in time, so that short jobs do not wait for claims.
        batch: the maximum number of jobs claimed, or settled, in one statement.
        linger: how long a finished job may wait to be settled in a batch with others.
        retention: how long finished jobs are kept, by outcome, as `timedelta`; None keeps them
            forever.
        prune_batch: the maximum number of jobs deleted in one transaction.
        keep_hours: how long the figures of an hour are kept, as `timedelta`, and errors after they
            last occurred; None keeps them forever.
        keep_inbox: how long messages of the inbox are remembered, as `timedelta`; None: forever.
            Longer than a message may come again: by retries, a replay, a dead letter sent back.
        keep_said: how long federation remembers which activity about an object has arrived last, as
            `timedelta`; None: until the object is deleted or the host forgotten.
        keep_audit: how long actions of people are kept, as `timedelta`; None: forever.
        doorbell_grace: how long a doorbell may stay without an answer before a broker is taken to
            have lost it, and it is rung again.
        exit_when_stuck: how long handlers that do not end may hold all slots before the worker ends
            itself with WorkerStuck; None: forever.
        log_jobs: which attempts have a line in the log: "all"; "auto", successes only while few
            come in a second; or "failures".
        retry: the retry policy of tasks without their own, in words, such as "fixed:30s"; it
            replaces the application's default, as do the next two.
        max_attempts: the number of executions of their jobs.
        timeout: the maximum duration of their attempts.
        connections: the maximum number of connections to servers, for all databases in sum; None:
            as many as needed.
        webhooks: whether it delivers webhooks, and how; `True` is as usual, None not at all.
        app_version: the version of the application: numbers with dots between them, such as a build
            number, that grow with each deployment, also with one that goes back to older code.
        drain_on_new_version: whether it takes no more work, lets running handlers end and ends once
            workers of newer versions serve all that it serves.
        metrics_port: the TCP port of its metrics, for Prometheus, and of its probes; 0: any that is
            free; None: it has none.
        metrics_host: the address of that port.

    Raises:
        ConfigurationError: a setting is out of range.
    """

    queues: Annotated[
        tuple[str, ...] | None,
        Option("Queues to serve, such as mail,default; all if left out.", short="-q"),
    ] = None
    exclude_queues: Annotated[
        tuple[str, ...] | None, Option("Queues not to serve, in place of -q.")
    ] = None
    tasks: Annotated[
        tuple[str, ...] | None,
        Option("Tasks to serve, such as thumbnail,report; all of the application if left out."),
    ] = None
    concurrency: Annotated[int, Option("Jobs at once.", least=1, short="-c")] = 20
    grace: Annotated[
        float, Option("Seconds that running jobs may take once a signal says to stop.", least=0)
    ] = 30.0
    poll: Annotated[float, Option("Longest sleep of an idle worker, in seconds.", above=0)] = 2.0
    heartbeat: Annotated[float, Option("Seconds between heartbeats.", above=0)] = 5.0
    expiry: Annotated[
        float,
        Option("Seconds after its last heartbeat until a worker's jobs run elsewhere.", above=0),
    ] = 15.0
    prefetch: Annotated[float, Option(least=0)] = 0.1
    batch: Annotated[int, Option(least=1)] = 500
    linger: Annotated[float, Option(least=0)] = 0.004
    doorbell_grace: Annotated[
        float,
        Option(
            "Seconds without an answer after which a broker is taken to have lost a doorbell.",
            above=0,
        ),
    ] = 30.0
    connections: Annotated[
        int | None,
        Option(
            "Connections to servers at most, of a process with all its databases; no limit if left"
            " out.",
            least=MIN_CONNECTIONS,
        ),
    ] = None
    exit_when_stuck: Annotated[
        float | None,
        Option(
            "Seconds that all slots may be lost before the process ends, with status 6; 0: never.",
            above=0,
        ),
    ] = None
    log_jobs: Annotated[
        JobLogMode,
        Option(
            "Jobs that get a line in the log: all; successes only while few come in a second, then"
            " one line a second for the others; or no successes."
        ),
    ] = "auto"
    retry: Annotated[
        str | None,
        Option(
            f"Retry policy of tasks without their own: {ACCEPTED_FORMS}; the application's if left"
            " out."
        ),
    ] = None
    max_attempts: Annotated[int | None, Option("Executions of such jobs in all.", least=1)] = None
    timeout: Annotated[
        float | None,
        Option(
            "Seconds that an attempt may take, for tasks without a timeout of their own.", above=0
        ),
    ] = None
    retention: dict[OutcomeKind, timedelta | None] = field(default_factory=_retention)
    keep_hours: Annotated[
        timedelta | None,
        Option("How long the figures of an hour are kept, and errors after they last occurred."),
    ] = 90 * DAY
    keep_inbox: Annotated[
        timedelta | None, Option("How long messages of the inbox are remembered.")
    ] = 100 * DAY
    keep_said: Annotated[
        timedelta | None, Option("How long federation remembers what has arrived last.")
    ] = 90 * DAY
    keep_audit: Annotated[
        timedelta | None, Option("How long actions of people are kept in the audit.")
    ] = 365 * DAY
    prune_batch: Annotated[int, Option("Jobs deleted in one transaction.", least=1)] = 1_000
    webhooks: WebhookSettings | None = None
    app_version: Annotated[
        str | None,
        Option(
            "Version of the application: numbers with dots, such as a build number, that grow with"
            " each deployment, also with one that goes back to older code."
        ),
    ] = None
    drain_on_new_version: Annotated[
        bool,
        Option(
            "Take no more work once workers with a later --app-version serve all that this one"
            " serves, and end with status 0 when what runs has."
        ),
    ] = False
    metrics_port: Annotated[
        int | None,
        Option(
            "Port of its metrics for Prometheus, and of /livez and /readyz; of several processes"
            " the first, and the next ones follow; 0: any that is free.",
            least=0,
        ),
    ] = None
    metrics_host: Annotated[
        str, Option("Where that port is; others than this machine reach 0.0.0.0.")
    ] = "127.0.0.1"

    def serves(self, queue: str) -> bool:
        """Return whether a queue is served."""
        return self.served.has(queue)

    @property
    def served(self) -> Served:
        """The queues and tasks that are served."""
        return Served(self.queues, self.exclude_queues or (), self.tasks)

    @classmethod
    def of(cls, terms: WorkerTerms) -> Self:
        """Return the settings for the given terms.

        Raises:
            ConfigurationError: a setting is out of range.
            TypeError: a setting is unknown.
        """
        given: dict[str, Any] = {**terms}
        for name in ("queues", "exclude_queues", "tasks"):
            given[name] = None if given.get(name) is None else _names(name, given[name])
        if isinstance(given.get("webhooks"), bool):
            given["webhooks"] = WebhookSettings() if given["webhooks"] else None
        return cls(**given)

    @property
    def defaults(self) -> DefaultsInWords:
        """The defaults for tasks without options of their own."""
        return DefaultsInWords(self.retry, self.max_attempts, self.timeout)

    @property
    def longest_wait(self) -> float:
        """The maximum seconds between two tries of a loop while the database is away."""
        return min(MAX_WAIT, max(0.5, 3 * self.poll))

    @property
    def patience(self) -> float:
        """The seconds of errors that do not pass by themselves after which the worker ends."""
        return 2 * self.expiry

    @property
    def turn_limit(self) -> float:
        """The seconds without a sign after which a loop counts as hanging; no call takes longer."""
        return max(MIN_TURN_LIMIT, 4 * self.call_limit)

    @property
    def call_limit(self) -> float:
        """The seconds that a claim or a settlement may take before its connection is dropped."""
        return max(5.0, self.expiry * 2 / 3)

    @property
    def rest(self) -> float:
        """The seconds by which a worker without jobs beats later, if others bring them to it.

        Its row stays valid for longer by the same time. When it gets a job it beats at once, and
        then at the usual interval.
        """
        return self.heartbeat

    @property
    def beat_limit(self) -> float:
        """The seconds that a heartbeat may take, which leaves time for another one."""
        return max(1.0, self.expiry / 3)

    @property
    def rescue_every(self) -> float:
        """The seconds between checks for vanished workers."""
        return self.heartbeat / 2

    @property
    def lifetime(self) -> float:
        """The seconds for which a heartbeat keeps a worker alive: it is rescued within `expiry`."""
        return self.expiry - self.rescue_every

    def __post_init__(self) -> None:
        self.defaults.defaults()  # raises if one is out of range
        for name, option in options():
            option.check(name, getattr(self, name))
        if self.concurrency > MAX_SLOTS:
            raise ConfigurationError(f"concurrency is {self.concurrency}; give at most {MAX_SLOTS}")
        if self.log_jobs not in (modes := get_args(JobLogMode)):
            raise ConfigurationError(
                f"log_jobs is {self.log_jobs!r}; give one of {', '.join(modes)}"
            )
        if self.expiry < 2 * self.heartbeat:
            raise ConfigurationError(
                f"expiry is {self.expiry} s with a heartbeat every {self.heartbeat} s; give at"
                " least twice the heartbeat, or one late beat makes a worker's jobs run twice"
            )
        if not isinstance(self.webhooks, WebhookSettings | None):
            raise ConfigurationError(
                f"webhooks is {self.webhooks!r}; give True, or WebhookSettings(…)"
            )
        self._check_served()
        self._check_version()
        if self.metrics_port is not None and self.metrics_port > LAST_PORT:
            raise ConfigurationError(
                f"metrics_port is {self.metrics_port}; give at most {LAST_PORT}"
            )
        for name in ("keep_hours", "keep_inbox", "keep_said", "keep_audit"):
            if not isinstance(age := getattr(self, name), timedelta | None):
                raise ConfigurationError(f"{name} is {age!r}; give a timedelta, or None for ever")
        for outcome, age in self.retention.items():
            _check_retention(outcome, age)

    def _check_served(self) -> None:
        if self.queues is not None:
            _check_names("queue", self.queues, MAX_QUEUE_NAME)
        if self.exclude_queues is not None:
            _check_names("queue", self.exclude_queues, MAX_QUEUE_NAME)
        if self.queues is not None and self.exclude_queues is not None:
            raise ConfigurationError(
                f"queues {', '.join(self.queues)} are to be served, and"
                f" {', '.join(self.exclude_queues)} are not: give one of these settings"
            )
        if self.tasks is not None:
            _check_names("task", self.tasks, MAX_TASK_NAME)
        if self.webhooks is not None and not self.served.has(WEBHOOK_QUEUE, WEBHOOK_TASK):
            raise ConfigurationError(
                f"webhooks are to be delivered, which are jobs of the queue {WEBHOOK_QUEUE!r}, but"
                " queues, exclude_queues or tasks leave them out: name that queue, too, or let"
                " another worker deliver them, `mutirao webhooks --database URL`"
            )

    def _check_version(self) -> None:
        version = self.app_version
        if version is not None and not is_version(version):
            raise ConfigurationError(
                f"app_version is {version!r:.100}; give numbers with dots between them that grow"
                " with each deployment, such as a build number or the seconds since 1970"
            )
        if self.drain_on_new_version and version is None:
            raise ConfigurationError(
                "drain_on_new_version is set, and nothing says which version this is; give"
                " app_version, too"
            )


def _names(setting: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigurationError(f"{setting} are {names!r}; give a list, such as [{names!r}]")
    return tuple(names)


def _check_names(what: str, names: tuple[str, ...], longest: int) -> None:
    if not names:
        raise ConfigurationError(f"no {what} is given; name some, or leave them out to serve all")
    if not all(names):
        raise ConfigurationError(f"an empty {what} name is given; name {what}s or leave them out")
    for name in names:
        try:
            check_text(f"{what} name", name, longest)
        except InvalidJob as wrong:
            raise ConfigurationError(str(wrong)) from None


def _check_retention(outcome: object, age: object) -> None:
    if not isinstance(outcome, OutcomeKind) or not isinstance(age, timedelta | None):
        raise ConfigurationError(
            f"retention has {outcome!r}: {age!r}; give an OutcomeKind and a timedelta, or None to"
            " keep such jobs for ever"
        )


def options() -> Iterator[tuple[str, Option]]:
    """Yield the settings that are numbers within bounds, or options of the command line."""
    for each in fields(WorkerSettings):
        if get_origin(each.type) is Annotated:
            yield each.name, get_args(each.type)[1]


def identity(settings: WorkerSettings, version: str) -> NewWorker:
    """Return the facts of a worker in this process."""
    host, pid = socket.gethostname(), os.getpid()
    return NewWorker(
        name=worker_name(),
        host=host,
        pid=pid,
        queues=settings.queues,
        exclude_queues=settings.exclude_queues or (),
        tasks=settings.tasks,
        concurrency=settings.concurrency,
        version=version,
        app_version=settings.app_version,
    )


def worker_name() -> str:
    """Return the name of a worker in this process, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"
