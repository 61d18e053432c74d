"""Passes measurements of a worker to its listeners; their errors are logged and end nothing.

A part of the engine that has something to report holds a `Listeners`, or None if there are none.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from time import monotonic, time

from mutirao.engine.calls.attempt import Finished
from mutirao.log import log
from mutirao.ports.measurements import EndedAttempt, MeasuredWorker, Measurements

SAY_EVERY = 60.0  # seconds between lines about a listener that fails


class Listeners:
    """All listeners of a worker as one `Measurements`: none disturbs another, or the worker."""

    def __init__(self, listeners: Iterable[Measurements]) -> None:
        self._listeners = tuple(listeners)
        self._begun: list[Measurements] = []
        self._said_at = -inf

    def begin(self, worker: MeasuredWorker) -> None:
        """Begin with each. Raises what one raises, and then none has begun."""
        try:
            for each in self._listeners:
                each.begin(worker)
                self._begun.append(each)
        except BaseException:
            self.end(worker)
            raise

    def end(self, worker: MeasuredWorker) -> None:
        """End with those that have begun."""
        begun, self._begun = self._begun, []
        for each in begun:
            self._call(each.end, worker)

    def claimed(self, jobs: int, seconds: float) -> None:
        """Report a claim."""
        for each in self._listeners:
            self._call(each.claimed, jobs, seconds)

    def settled(self, jobs: int, seconds: float) -> None:
        """Report a settlement."""
        for each in self._listeners:
            self._call(each.settled, jobs, seconds)

    def ended(self, attempts: Sequence[EndedAttempt]) -> None:
        """Report attempts whose outcomes are written."""
        for each in self._listeners:
            self._call(each.ended, attempts)

    def fenced(self, jobs: int) -> None:
        """Report attempts whose outcomes were dropped."""
        for each in self._listeners:
            self._call(each.fenced, jobs)

    def rescued(self, jobs: int) -> None:
        """Report jobs that were given back."""
        for each in self._listeners:
            self._call(each.rescued, jobs)

    def written(self, finished: Sequence[Finished]) -> None:
        """Report attempts whose outcomes are written, from the engine's own values."""
        if finished:
            self._call(self._written, finished)

    def _written(self, finished: Sequence[Finished]) -> None:
        self.ended(ended_attempts(finished))

    def _call(self, method: Callable[..., None], *values: object) -> None:
        try:
            method(*values)
        except Exception:  # noqa: BLE001 (logged; a listener ends nothing)
            if monotonic() >= self._said_at + SAY_EVERY:
                self._said_at = monotonic()
                log.exception("a listener of measurements failed; jobs go on")


def heard(listeners: Iterable[Measurements]) -> Listeners | None:
    """Return listeners as one; None: there are none."""
    found = tuple(listeners)
    return Listeners(found) if found else None


def ended_attempts(finished: Sequence[Finished]) -> list[EndedAttempt]:
    """Return attempts in the form that listeners receive."""
    ahead = time() - monotonic()
    return [_ended(each, each.started + ahead) for each in finished]


def _ended(finished: Finished, started: float) -> EndedAttempt:
    """`started`: by this machine's clock, in seconds since 1970."""
    claim, outcome = finished.claim, finished.outcome
    run_at, enqueued_at = claim.run_at, claim.enqueued_at
    waited = started - (run_at if run_at > enqueued_at else enqueued_at).timestamp()
    return EndedAttempt(
        claim.queue,
        claim.task,
        outcome.kind,
        claim.attempt,
        waited if waited > 0 else 0.0,
        finished.finished - finished.started,
        outcome.error_type,
    )
