"""Breakers: stop deliveries to an endpoint or a host that only fails, and start them again.

Pure decisions over a row of `mutirao_breaker`, which the fleet shares. A row exists only while
deliveries fail: a success removes it. An open breaker holds deliveries by a limit of 0; a half-open
one by a limit of 1, whose delivery is the probe.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from mutirao.model.jobs.retry import grown

DAY = 86_400.0


class BreakerState(StrEnum):
    """The state of a breaker."""

    CLOSED = "closed"  # deliveries go out
    OPEN = "open"  # they are held until `probe_at`
    HALF_OPEN = "half_open"  # one at a time goes out


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerTerms:
    """When breakers open, and how long. Durations are in seconds.

    Parameters:
        failures: in a row, after which the breaker of an endpoint opens; that of a host opens after
            twice as many without any answer, so that one endpoint does not stop its neighbours.
        window: the time within which they have to come.
        first_wait: until the first probe; each one that fails doubles it.
        longest_wait: between two probes.
        disable_after: how long an endpoint has only failed when it is disabled.
    """

    failures: int = 10
    window: float = 300.0
    first_wait: float = 30.0
    longest_wait: float = 1_800.0
    disable_after: float = 5 * DAY


class BreakerName(NamedTuple):
    """The name of a breaker: `kind` is `endpoint` or `host`, `key` its id or name."""

    kind: str
    key: str


@dataclass(slots=True)
class Tally:
    """The results of deliveries to one endpoint or host since the last decision.

    `hold`: seconds for which the server asked to receive nothing, if it did.
    """

    succeeded: int = 0
    failed: int = 0
    hold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A row of `mutirao_breaker`; `opened` counts how often in a row it has opened."""

    kind: str
    key: str
    state: BreakerState = BreakerState.CLOSED
    failures: int = 0
    counted_from: datetime
    failing_since: datetime | None
    probe_at: datetime | None = None
    opened: int = 0


class BreakerVerdict(NamedTuple):
    """The decision about a breaker: its row (None: there is none), and further actions.

    `wait`: it opens, for this many seconds. `closes`: the held deliveries go out. `disable`: the
    endpoint has failed for too long.
    """

    row: Breaker | None
    wait: float | None = None
    closes: bool = False
    disable: bool = False

    @property
    def acts(self) -> bool:
        """Whether more has to be done than to write the row."""
        return self.wait is not None or self.closes or self.disable


def judge(
    row: Breaker | None,
    name: BreakerName,
    tally: Tally,
    terms: BreakerTerms,
    now: datetime,
    spread: Callable[[float, float], float] = random.uniform,
) -> BreakerVerdict:
    """Return the decision about a breaker after the results of a tally.

    `spread` draws between two numbers: fleets and peers should not meet again at the same moment.
    """
    if tally.hold is not None:
        return _held(row, name, tally.hold, now)
    if tally.succeeded:
        closes = row is not None and row.state is not BreakerState.CLOSED
        return BreakerVerdict(None, closes=closes)
    if not tally.failed:
        return BreakerVerdict(row)
    before = row or Breaker(kind=name.kind, key=name.key, counted_from=now, failing_since=now)
    if now - before.counted_from > timedelta(seconds=terms.window):
        before = replace(before, counted_from=now, failures=0)
    since = before.failing_since or now
    counted = replace(before, failures=before.failures + tally.failed, failing_since=since)
    if name.kind == "endpoint" and now - since >= timedelta(seconds=terms.disable_after):
        return BreakerVerdict(None, disable=True)
    most = terms.failures * (1 if name.kind == "endpoint" else 2)
    due = counted.state is BreakerState.HALF_OPEN or counted.failures >= most
    if counted.state is BreakerState.OPEN or not due:
        return BreakerVerdict(counted)
    wait = grown(terms.first_wait, counted.opened, terms.longest_wait) * spread(0.9, 1.1)
    return _opened(replace(counted, opened=counted.opened + 1), wait, now)


def half_open(row: Breaker, now: datetime) -> Breaker | None:
    """Return a breaker that lets one delivery through; None if it is not time, or not open."""
    if row.state is not BreakerState.OPEN or row.probe_at is None or row.probe_at > now:
        return None
    return replace(row, state=BreakerState.HALF_OPEN, probe_at=None)


def _held(row: Breaker | None, name: BreakerName, hold: float, now: datetime) -> BreakerVerdict:
    """Open for as long as the server asks; that is no failure."""
    before = row or Breaker(kind=name.kind, key=name.key, counted_from=now, failing_since=None)
    if before.state is BreakerState.OPEN:
        return BreakerVerdict(before)
    return _opened(before, max(1.0, hold), now)


def _opened(row: Breaker, wait: float, now: datetime) -> BreakerVerdict:
    at = now + timedelta(seconds=wait)
    return BreakerVerdict(replace(row, state=BreakerState.OPEN, probe_at=at, failures=0), wait=wait)
