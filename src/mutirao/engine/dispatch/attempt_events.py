"""Logs attempts and publishes them as events, if the broker of a queue publishes events.

Messages that are dead without an attempt are published, too.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from mutirao.engine.dispatch import attempt_log
from mutirao.engine.dispatch.attempt_log import JobLog
from mutirao.engine.loops import LoopHealth
from mutirao.engine.settings import WorkerSettings, worker_name
from mutirao.model.brokers.message import Bury, Message
from mutirao.model.jobs.events import EventKind, JobEvent
from mutirao.model.jobs.job import Claim, OutcomeKind
from mutirao.model.jobs.outcome import Outcome
from mutirao.ports import Transport
from mutirao.ports.events import TellsEvents, event_transport
from mutirao.tasks import job_messages

LONGEST_ERROR = 300  # characters

_KINDS = {
    OutcomeKind.SUCCEEDED: EventKind.SUCCEEDED,
    OutcomeKind.RETRIED: EventKind.RETRIED,
    OutcomeKind.SNOOZED: EventKind.RETRIED,
    OutcomeKind.RELEASED: EventKind.RETRIED,
    OutcomeKind.CANCELLED: EventKind.STOPPED,
    OutcomeKind.DEAD: EventKind.DEAD,
}  # the worker that starts a lost job next publishes the loss: the broker is often lost, too


def attempts_log(settings: WorkerSettings, transports: Mapping[str, Transport]) -> JobLog:
    """Return the log of a worker's attempts; `transports`: those of its queues, by queue."""
    found = {queue: event_transport(transport) for queue, transport in transports.items()}
    publishing = {queue: events for queue, events in found.items() if events is not None}
    if not publishing:
        return JobLog(settings.log_jobs)
    return EventLog(settings, publishing)


class EventLog(JobLog):
    """Logs attempts, and publishes those of some queues. `transports`: theirs, by queue."""

    def __init__(self, settings: WorkerSettings, transports: Mapping[str, TellsEvents]) -> None:
        super().__init__(settings.log_jobs)
        self._transports, self._every = transports, settings.heartbeat
        self._worker = worker_name()
        self._running: dict[tuple[int, int], tuple[Claim, float]] = {}

    def started(self, claim: Claim) -> None:
        """Log and publish that an attempt starts, and that the one before was lost, if so."""
        attempt_log.started(claim)
        if claim.queue in self._transports:
            self._running[claim.id, claim.run] = claim, monotonic()
            if claim.lost:
                self._publish(EventKind.LOST, claim)
            self._publish(EventKind.STARTED, claim)

    def ended(
        self, claim: Claim, outcome: Outcome, since: float, error: BaseException | None = None
    ) -> None:
        """Log and publish the outcome of an attempt."""
        super().ended(claim, outcome, since, error)
        if claim.queue in self._transports:
            self._running.pop((claim.id, claim.run), None)
            if (kind := _KINDS.get(outcome.kind)) is not None:
                why = _why(outcome.error_type, outcome.error)
                self._publish(kind, claim, duration=monotonic() - since, error=why)

    async def beat(self, pulse: LoopHealth) -> None:
        """Publish at every heartbeat the attempts that have run since the previous one, forever."""
        while True:
            await pulse.rest(self._every)
            long_ago = monotonic() - self._every
            for claim, since in list(self._running.values()):
                if since <= long_ago:
                    self._publish(EventKind.HEARTBEAT, claim, duration=monotonic() - since)

    def _publish(self, kind: EventKind, claim: Claim, **more: Any) -> None:
        self._transports[claim.queue].tell(
            JobEvent(
                kind=kind,
                task=claim.task,
                queue=claim.queue,
                job=str(claim.id),
                at=datetime.now(UTC),
                attempt=claim.attempt,
                worker=self._worker,
                **more,
            )
        )


def publish_lost(transport: object, message: Message) -> None:
    """Publish that an attempt was lost with a connection; see `publish_buried`."""
    if (events := event_transport(transport)) is not None:
        events.tell(
            JobEvent(
                kind=EventKind.LOST,
                task=message.task,
                queue=message.queue,
                job=str(job_messages.id_of(message)),
                at=datetime.now(UTC),
                attempt=message.attempt,
                worker=worker_name(),
            )
        )


def publish_buried(transport: object, queue: str, settling: Bury, message: Message | None) -> None:
    """Publish that a message is dead without an attempt.

    `transport`: that of the queue; if it publishes no events, nothing happens. `message`: what
    could be read of it; None: nothing.
    """
    if (events := event_transport(transport)) is None:
        return
    cause, delivery = settling.cause, settling.delivery
    message = message or delivery.message
    id = delivery.id if delivery.foreign is None else delivery.foreign.id
    if message is not None:
        id = str(job_messages.id_of(message))
    events.tell(
        JobEvent(
            kind=EventKind.DEAD,
            task="" if message is None else message.task,
            queue=queue,
            job=id,
            at=datetime.now(UTC),
            attempt=cause.attempts,
            worker=worker_name(),
            error=_why(cause.error_type, cause.error),
        )
    )


def _why(error_type: str | None, error: str | None) -> str | None:
    if error is None:
        return None
    said = f"{error_type}: {error.partition(chr(10))[0]}"[:LONGEST_ERROR]
    return said.encode(errors="backslashreplace").decode()
