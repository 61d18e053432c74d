"""Logs attempts: a line each, or sums if there are too many to be read.

A line costs 20 µs, as much as all else that a worker does for a short job: 49.7k jobs a second
without lines are 24.6k with them. So successes are added up if there are many of them. Every other
outcome always has a line of its own. Payloads are never logged.

These are functions that the executor calls and no middleware, which would cost every job a
generator and a `Job`: 1.4 of the 8 µs that the engine takes for one.
"""

import asyncio
import logging
from math import inf
from time import monotonic
from traceback import format_exception

from mutirao.engine.settings import JobLogMode
from mutirao.errors import JobDied
from mutirao.log import fields, log, name_job
from mutirao.model.jobs.job import Claim, OutcomeKind
from mutirao.model.jobs.outcome import SUCCEEDED, Outcome
from mutirao.model.jobs.retry import Dead

# What happened, for programs that read the log: the field `event` of a record.
STARTED, ENDED, DROPPED = "attempt.started", "attempt.ended", "attempt.dropped"
SUMMED_UP = "attempts.succeeded"

MAX_SUCCESS_LINES_PER_SECOND = 20  # for succeeded jobs; others are added up
SUMMARY_PERIOD = 1.0  # seconds that a summary covers
MAX_TASKS_PER_SUMMARY = 5

_LEVELS = {
    OutcomeKind.SUCCEEDED: logging.INFO,
    OutcomeKind.SNOOZED: logging.INFO,
    OutcomeKind.RELEASED: logging.INFO,
    OutcomeKind.CANCELLED: logging.INFO,
    OutcomeKind.RETRIED: logging.WARNING,
    OutcomeKind.LOST: logging.WARNING,
    OutcomeKind.DEAD: logging.ERROR,
}


def dropped(claim: Claim, outcome: Outcome) -> None:
    """Log that an attempt ended after its job was taken from this worker."""
    log.warning(
        "job %s was taken from this worker; its outcome %s is dropped",
        *(claim.id, outcome.kind),
        extra=fields(claim) | {"event": DROPPED},
    )


def started(claim: Claim) -> None:
    """Log at DEBUG that an attempt starts, and add its job to all log records from here on."""
    name_job(claim)
    if log.heeds(logging.DEBUG):
        extra = fields(claim) | {"event": STARTED}
        log.debug("job %s (%s) starts", claim.id, claim.task, extra=extra)


def ended(claim: Claim, outcome: Outcome, since: float, error: BaseException | None = None) -> None:
    """Log the outcome of an attempt that started at the monotonic time `since`.

    `error`: the error that made a job dead. It may be missing, because a child process raised it
    or workers were lost, or it may not be writable to a log: then a `JobDied` with its text
    replaces it. A death is logged with the error and its traceback, by a template that names the
    task: programs that collect errors group by one of both. A `Dead` without a cause is logged as
    a line without a traceback: the handler decided so, and nothing failed.
    """
    level = _LEVELS[outcome.kind]
    if not log.heeds(level):
        return
    duration = monotonic() - since
    extra = fields(claim) | {"event": ENDED, "outcome": str(outcome.kind)}
    extra["ms"] = round(1000 * duration, 3)
    if outcome.error is not None:
        extra["error"] = f"{outcome.error_type}: {outcome.error}"
    if outcome.kind is OutcomeKind.DEAD:
        template = f"job %s ({claim.task.replace('%', '%%')}) dead in %.3f s%s"
        if isinstance(error, Dead) and error.__context__ is None:
            log.error(template, claim.id, duration, _why(outcome), extra=extra)
            return
        died = error
        if died is None or not can_be_written(died):
            died = JobDied(f"{outcome.error_type}: {outcome.error}", claim.id)
        log.error(template, claim.id, duration, _why(outcome), exc_info=died, extra=extra)
        return
    log.say(
        level,
        "job %s (%s) %s in %.3f s%s",
        *(claim.id, claim.task, outcome.kind, duration, _why(outcome)),
        extra=extra,
    )


def can_be_written(error: BaseException) -> bool:
    """Return whether a traceback is text that files can hold; lone surrogates are not."""
    try:
        "".join(format_exception(error)).encode()
    except UnicodeEncodeError:
        return False
    return True


class JobLog:
    """Logs the attempts of a worker, in its event loop.

    Parameters:
        mode: "all" logs a line for each attempt; "auto" does so for up to 20 successes a second,
            and logs one line a second for all others; "failures" logs no successes.
    """

    def __init__(self, mode: JobLogMode = "all") -> None:
        self._lines: float = {"all": inf, "auto": MAX_SUCCESS_LINES_PER_SECOND, "failures": 0}[mode]
        self._sums_up = mode == "auto"
        self._left = self._lines
        self._until = 0.0  # when more lines may be logged
        self._summary: dict[str, _Sum] = {}

    def started(self, claim: Claim) -> None:
        """Log that an attempt starts, at DEBUG."""
        started(claim)

    def ended(
        self, claim: Claim, outcome: Outcome, since: float, error: BaseException | None = None
    ) -> None:
        """Log the outcome of an attempt that started at monotonic `since`, or add it up.

        `error`: the error that made a job dead.
        """
        if outcome is not SUCCEEDED and outcome.kind is not OutcomeKind.SUCCEEDED:
            ended(claim, outcome, since, error)
        elif log.heeds(logging.INFO):
            now = monotonic()
            if self._has_line(now):
                ended(claim, outcome, since)
            elif self._sums_up:
                self._add(claim.task, now - since)

    def flush(self) -> None:
        """Log what was added up since the last time."""
        summary, self._summary = self._summary, {}
        if not summary:
            return
        jobs = sum(each.jobs for each in summary.values())
        log.info(
            "%s more jobs succeeded within %g s: %s",
            *(jobs, SUMMARY_PERIOD, _described(summary)),
            extra={"event": SUMMED_UP, "jobs": jobs, "outcome": str(OutcomeKind.SUCCEEDED)},
        )

    def _has_line(self, now: float) -> bool:
        if now >= self._until:
            self._until, self._left = now + SUMMARY_PERIOD, self._lines
        self._left -= 1
        return self._left >= 0

    def _add(self, task: str, seconds: float) -> None:
        if not self._summary:
            asyncio.get_running_loop().call_later(SUMMARY_PERIOD, self.flush)
        found = self._summary.get(task)
        if found is None:
            found = self._summary[task] = _Sum()
        found.jobs += 1
        found.seconds += seconds


class _Sum:
    """How many jobs of a task succeeded, and the sum of their durations."""

    __slots__ = ("jobs", "seconds")

    def __init__(self) -> None:
        self.jobs, self.seconds = 0, 0.0

    @property
    def mean(self) -> float:
        """The mean duration, in seconds."""
        return self.seconds / self.jobs


def _described(summary: dict[str, _Sum]) -> str:
    most = sorted(summary.items(), key=lambda item: -item[1].jobs)
    shown = [
        f"{task} {each.jobs} ({each.seconds / each.jobs:.3f} s)"
        for task, each in most[:MAX_TASKS_PER_SUMMARY]
    ]
    others = sum(each.jobs for _, each in most[MAX_TASKS_PER_SUMMARY:])
    return ", ".join([*shown, f"others {others}"] if others else shown)


def _why(outcome: Outcome) -> str:
    if outcome.error is None:
        return ""
    return f": {outcome.error_type}: {outcome.error.partition(chr(10))[0]}"
