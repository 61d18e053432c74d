"""Hosts that activities go to: whether they are up, and when the next delivery is tried.

Pure rules. The wait after failures belongs to the host, not to a delivery. During the wait a limit
of 0 holds its deliveries; then a limit of 1 lets one through, and its outcome decides.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from mutirao.errors import InvalidLimit
from mutirao.model.jobs.job import NewJob
from mutirao.model.jobs.retry import grown
from mutirao.model.limits.limits import Rule, name_about

DELIVER, PROBE, SEND = "federation.deliver", "federation.probe", "federation.send"  # tasks
BY = "host"  # the argument of a delivery
FIRST_WAIT, LONGEST_WAIT = 10.0, 6 * 3_600.0  # seconds between two tries of a host that is down
UNAVAILABLE_AFTER = timedelta(days=30)
RETRIED_AFTER_REFUSAL = 8  # attempts of a delivery that the host answers with an error
_FINAL = {400, 405, 406, 409, 411, 413, 414, 415, 422, 451}
_HOSTS_OWN = {408, 425, 502, 503, 504}


class HostState(StrEnum):
    """The known state of a host."""

    UP = "up"
    FAILING = "failing"
    UNAVAILABLE = "unavailable"  # it has failed for 30 days


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host that activities go to.

    Parameters:
        name: of the host, without port.
        state: whether it answers.
        failures: in a row.
        failing_since: when the first of them was.
        next_probe: nothing is sent to it before this moment.
        held: an operator has stopped all deliveries to it.
        signature: how requests to it are signed, if it has been found: rfc9421 or cavage.
        concurrency: requests at once; None is the usual number.
        status: of the last answer that was a failure.
        error: the text of the last failure.
        changed_at: when anything of this has changed.
    """

    name: str
    state: HostState = HostState.UP
    failures: int = 0
    failing_since: datetime | None = None
    next_probe: datetime | None = None
    held: bool = False
    signature: str | None = None
    concurrency: int | None = None
    status: int | None = None
    error: str | None = None
    changed_at: datetime | None = None

    @property
    def most(self) -> int | None:
        """How many deliveries may run at once; None: the usual number."""
        if self.held or self.next_probe is not None:
            return 0
        return 1 if self.state is HostState.FAILING else self.concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord(Host):
    """A host as people see it.

    Parameters:
        waiting: deliveries that are to be made.
        dead: deliveries that have died, and were not redriven.
    """

    waiting: int = 0
    dead: int = 0

    @property
    def redrivable(self) -> bool:
        """True if it is up again, and there are old deliveries that may be sent again."""
        return self.state is HostState.UP and self.dead > 0


Amend = Callable[[Host, datetime], Host]


def limit_of(host: Host) -> Rule | None:
    """Return the limit of deliveries to a host; None if it needs no special one."""
    if host.most is None:
        return None
    return Rule(name=limit_name(host.name), task=DELIVER, by=BY, key=host.name, most=host.most)


def limit_name(host: str) -> str:
    """Return the name of a host's limit."""
    return name_about("host", host)


def probe_of(before: Host, after: Host, queue: str) -> tuple[NewJob, ...]:
    """Return the job that lets the next delivery through, if a new moment was set for it."""
    if after.next_probe is None or after.next_probe == before.next_probe:
        return ()
    args = json.dumps({BY: after.name})
    return (NewJob(task=PROBE, args=args, queue=queue, run_at=after.next_probe),)


class DeliveryVerdict(StrEnum):
    """What an attempt shows about the delivery and the host."""

    ARRIVED = "arrived"
    GONE = "gone"  # the inbox is not there any more
    REFUSED = "refused"  # this delivery will never be taken
    AGAIN = "again"  # the host is up, and this delivery may be taken another time
    BUSY = "busy"  # the host asks for time
    BROKEN = "broken"  # the host fails, perhaps because of this delivery
    DOWN = "down"  # the host fails, whatever is sent


def verdict(status: int | None, unsafe: bool = False) -> DeliveryVerdict:
    """Return the verdict on an answer; `status` is None if there was none.

    Parameters:
        unsafe: nothing was sent, as the guard has refused the URL.
    """
    if unsafe:
        return DeliveryVerdict.REFUSED
    if status is None or status in _HOSTS_OWN:
        return DeliveryVerdict.DOWN
    if 200 <= status < 300:
        return DeliveryVerdict.ARRIVED
    if status in (404, 410):
        return DeliveryVerdict.GONE
    if status == 429:
        return DeliveryVerdict.BUSY
    if status >= 500:
        return DeliveryVerdict.BROKEN
    return DeliveryVerdict.REFUSED if status in _FINAL or status < 400 else DeliveryVerdict.AGAIN


def answers(host: Host, seen: datetime | None) -> Host:
    """Return a host that has answered an attempt, unless it has changed since that began.

    Parameters:
        seen: its `changed_at` when the attempt began.
    """
    if host.changed_at != seen:
        return host
    return replace(
        host, state=HostState.UP, failures=0, failing_since=None, next_probe=None, status=None,
        error=None,
    )  # fmt: skip


def fails(
    host: Host,
    now: datetime,
    seen: datetime | None,
    *,
    status: int | None = None,
    error: str | None = None,
    after: float = 0.0,
    spread: float = 1.0,
) -> Host:
    """Return a host that has failed an attempt, unless it has changed since that began.

    Of several attempts that fail at once, the first one counts.

    Parameters:
        now: the database's time.
        seen: its `changed_at` when the attempt began.
        status: of the answer.
        error: why there was none.
        after: seconds that it has asked for.
        spread: a factor of the wait, so that hosts that failed together are not tried together.
    """
    if host.changed_at != seen:
        return host
    since = host.failing_since or now
    failing = replace(
        host, failures=host.failures + 1, failing_since=since, status=status, error=error
    )
    if now - since >= UNAVAILABLE_AFTER:
        return replace(failing, state=HostState.UNAVAILABLE, next_probe=None)
    wait = grown(FIRST_WAIT, host.failures, LONGEST_WAIT) * spread
    at = now + timedelta(seconds=max(wait, after))
    return replace(failing, state=HostState.FAILING, next_probe=at)


def asks_for_time(host: Host, now: datetime, seen: datetime | None, after: float) -> Host:
    """Return a host to which nothing is sent for some seconds, because it asked for that."""
    if host.changed_at != seen:
        return host
    return replace(host, next_probe=now + timedelta(seconds=max(after, 1.0)), status=429)


def probe_is_due(host: Host, now: datetime) -> Host:
    """Return a host to which one delivery is let through, if it is time."""
    due = host.next_probe is not None and host.next_probe <= now
    return replace(host, next_probe=None) if due else host


def is_heard_from(host: Host) -> Host:
    """Return a host to which one delivery is let through, because a request of it has arrived.

    A host that sends may still accept nothing: so a delivery decides.
    """
    back = host.state is HostState.UNAVAILABLE
    return replace(host, next_probe=None, state=HostState.FAILING if back else host.state)


def checked_concurrency(concurrency: int | None) -> int | None:
    """Return the number of requests at once; raise InvalidLimit if it cannot be one."""
    if concurrency is None or (type(concurrency) is int and 1 <= concurrency <= 1_000):
        return concurrency
    raise InvalidLimit(f"concurrency is {concurrency!r}; give 1 to 1,000, or None for the usual")
