"""The sums of finished attempts for each hour: their number, their durations, and their errors.

Durations are counted to two digits, so that they can be added up and percentiles are right to 5 %.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MICROS_PER_HOUR = 3_600_000_000
MAX_ERROR_CHARACTERS = 200  # characters of an error's class, and of its first line
FINAL_OUTCOME_NAMES = ("succeeded", "dead", "cancelled")
FAILED_OUTCOME_NAMES = ("retried", "dead", "lost")


class Ended(NamedTuple):
    """An attempt that has ended; moments are microseconds, unless another program wrote the row.

    `error`: the beginning of its text, of an attempt that failed.
    """

    queue: str
    task: str
    job: int
    run: int
    outcome: str
    started_at: Any
    finished_at: int
    error_type: str | None
    error: str | None

    @property
    def hour(self) -> int:
        """The hour in which it ended."""
        return self.finished_at - self.finished_at % MICROS_PER_HOUR

    @property
    def seconds(self) -> float:
        """Return how long it took; 0 if the clock was set back meanwhile."""
        if not isinstance(self.started_at, int):
            return 0.0
        return max(self.finished_at - self.started_at, 0) / 1e6

    @property
    def failure(self) -> "FailureGroup":
        """Return the group it is counted in, if it failed."""
        return failure_of(self.task, self.error_type, self.error)


class FailureGroup(NamedTuple):
    """What errors are counted by."""

    task: str
    error_type: str
    message: str


def failure_of(task: str, error_type: str | None, error: str | None) -> FailureGroup:
    """Return what an error is counted by."""
    return FailureGroup(
        task,
        str(error_type or "")[:MAX_ERROR_CHARACTERS],
        str(error or "").split("\n")[0][:MAX_ERROR_CHARACTERS],
    )


@dataclass
class Hour:
    """The attempts of one task, queue and outcome in an hour.

    `durations`: how many took how many seconds, to two digits, as `3.8e+01`.
    """

    seconds: float = 0.0
    durations: Counter[str] = field(default_factory=Counter)

    @property
    def attempts(self) -> int:
        """Return how many there are."""
        return self.durations.total()

    def add(self, seconds: float) -> None:
        """Count one more attempt."""
        self.seconds += seconds
        self.durations[f"{seconds:.1e}"] += 1

    def percentile(self, share: float) -> float:
        """Return the seconds within which this share of the attempts ended."""
        number, enough = 0, self.attempts * share
        for about in sorted(self.durations, key=float):
            number += self.durations[about]
            if number >= enough:
                return float(about)
        return 0.0


@dataclass
class Failures:
    """How often something failed: the attempts, the jobs, and when; moments are microseconds."""

    jobs: int = 0
    attempts: int = 0
    first_at: int = 0
    last_at: int = 0

    def add(self, finished_at: int, *, new: bool) -> None:
        """Count one more attempt; `new`: the job's first one that failed so."""
        self.first_at = min(self.first_at, finished_at) if self.attempts else finished_at
        self.last_at = max(self.last_at, finished_at) if self.attempts else finished_at
        self.jobs += new
        self.attempts += 1


def by_hour(ended: Iterable[Ended]) -> dict[tuple[int, str, str, str], Hour]:
    """Return the sums by hour, queue, task and outcome."""
    sums: dict[tuple[int, str, str, str], Hour] = {}
    for each in ended:
        key = (each.hour, each.queue, each.task, each.outcome)
        sums.setdefault(key, Hour()).add(each.seconds)
    return sums


def finished_jobs(ended: Iterable[Ended]) -> Counter[tuple[str, str, int]]:
    """Return how many jobs finished, by queue, outcome and hour."""
    return Counter(
        (each.queue, each.outcome, each.hour)
        for each in ended
        if each.outcome in FINAL_OUTCOME_NAMES
    )


def by_failure(
    failed: Iterable[Ended], before: Iterable[tuple[int, int, str | None, str | None]]
) -> dict[FailureGroup, Failures]:
    """Return the sums by failure.

    Parameters:
        failed: the attempts to count.
        before: job, run, class and text of all attempts of these jobs that failed.
    """
    first: dict[tuple[int, str, str], int] = {}
    for job, run, error_type, error in before:
        key = (job, *failure_of("", error_type, error)[1:])
        first[key] = min(run, first.get(key, run))
    sums: dict[FailureGroup, Failures] = {}
    for each in failed:
        failure = each.failure
        new = first.get((each.job, *failure[1:]), each.run) >= each.run
        sums.setdefault(failure, Failures()).add(each.finished_at, new=new)
    return sums
