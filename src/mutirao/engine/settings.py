"""A worker's settings, with the reasons for their defaults."""

from dataclasses import dataclass, field
from datetime import timedelta

from mutirao.engine.backoff import LONGEST
from mutirao.errors import ConfigurationError
from mutirao.job import OutcomeKind

DAY = timedelta(days=1)
LEAST_TURN = 90.0  # seconds; SQLite waits 30 for another writer


def _retention() -> dict[OutcomeKind, timedelta | None]:
    return {
        OutcomeKind.SUCCEEDED: 7 * DAY,
        OutcomeKind.CANCELLED: 7 * DAY,
        OutcomeKind.DEAD: 90 * DAY,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """How a worker works. All lengths of time are seconds, but for `retention`.

    Parameters:
        queues: the queues to serve; None means all of them.
        concurrency: handlers running at once.
        grace: how long running handlers may go on after a stop was asked for.
        poll: longest sleep of an idle worker; wake-ups make it shorter.
        heartbeat: time between heartbeats.
        expiry: a worker whose last heartbeat is older is taken for gone. Two beats may fail.
        prefetch: work to hold ready, in time, so that short jobs do not wait for claims.
        batch: the most jobs claimed, or settled, in one statement.
        linger: how long a finished job may wait to be settled together with others.
        retention: how long finished jobs are kept, by outcome; None in it keeps them for ever.
        prune_batch: jobs deleted in one transaction.
        exit_when_stuck: how long all slots may be lost to handlers that do not end before the
            worker ends itself, with WorkerStuck; None for ever.
    """

    queues: tuple[str, ...] | None = None
    concurrency: int = 20
    grace: float = 30.0
    poll: float = 2.0
    heartbeat: float = 5.0
    expiry: float = 15.0
    prefetch: float = 0.1
    batch: int = 500
    linger: float = 0.004
    retention: dict[OutcomeKind, timedelta | None] = field(default_factory=_retention)
    prune_batch: int = 1_000
    exit_when_stuck: float | None = None

    @property
    def longest_wait(self) -> float:
        """Seconds between two tries of a loop while the database is away, at most."""
        return min(LONGEST, max(0.5, 3 * self.poll))

    @property
    def patience(self) -> float:
        """Seconds that a loop meets nothing but what does not pass before the worker ends."""
        return 2 * self.expiry

    @property
    def turn_limit(self) -> float:
        """Seconds without a sign after which a loop counts as hanging; no call takes so long."""
        return max(LEAST_TURN, 4 * self.call_limit)

    @property
    def call_limit(self) -> float:
        """Seconds that a claim or a settlement may take before its connection is given up."""
        return max(5.0, self.expiry * 2 / 3)

    @property
    def beat_limit(self) -> float:
        """Seconds that a heartbeat may take: there has to be time for another one."""
        return max(1.0, self.expiry / 3)

    @property
    def rescue_every(self) -> float:
        """Seconds between looks for vanished workers."""
        return self.heartbeat / 2

    @property
    def lifetime(self) -> float:
        """Seconds a heartbeat keeps a worker alive: a rescue comes within `expiry` of it."""
        return self.expiry - self.rescue_every

    def __post_init__(self) -> None:
        _at_least("concurrency", self.concurrency, 1)
        _at_least("batch", self.batch, 1)
        _at_least("prune_batch", self.prune_batch, 1)
        _at_least("grace", self.grace, 0)
        _at_least("prefetch", self.prefetch, 0)
        _at_least("linger", self.linger, 0)
        _above_zero("poll", self.poll)
        if self.exit_when_stuck is not None:
            _above_zero("exit_when_stuck", self.exit_when_stuck)
        _above_zero("heartbeat", self.heartbeat)
        if self.expiry < 2 * self.heartbeat:
            raise ConfigurationError(
                f"expiry is {self.expiry} s with a heartbeat every {self.heartbeat} s; give at"
                " least twice the heartbeat, or one late beat makes a worker's jobs run twice"
            )
        if self.queues is not None:
            _check_queues(self.queues)
        for outcome, age in self.retention.items():
            _check_retention(outcome, age)


def _check_queues(queues: tuple[str, ...]) -> None:
    if not queues:
        raise ConfigurationError("no queue is given; name some, or leave them out to serve all")
    if not all(queues):
        raise ConfigurationError("an empty queue name is given; name queues or leave them out")


def _check_retention(outcome: object, age: object) -> None:
    if not isinstance(outcome, OutcomeKind) or not isinstance(age, timedelta | None):
        raise ConfigurationError(
            f"retention has {outcome!r}: {age!r}; give an OutcomeKind and a timedelta, or None to"
            " keep such jobs for ever"
        )


def _at_least(name: str, value: float, least: float) -> None:
    if value < least:
        raise ConfigurationError(f"{name} is {value}; give {least} or more")


def _above_zero(name: str, value: float) -> None:
    if value <= 0:
        raise ConfigurationError(f"{name} is {value} seconds; give more than 0")
