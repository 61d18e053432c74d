"""Breakers: what opens and closes them, as a decision over a row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mutirao.model.webhooks.breakers import (
    Breaker,
    BreakerName,
    BreakerState,
    BreakerTerms,
    BreakerVerdict,
    Tally,
    half_open,
    judge,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TERMS = BreakerTerms(failures=3, window=60.0, first_wait=30.0, longest_wait=100.0)
ERP, HOST = BreakerName("endpoint", "erp"), BreakerName("host", "example.org")


def judged(
    row: Breaker | None, tally: Tally, after: float = 0.0, name: BreakerName = ERP
) -> BreakerVerdict:
    """Judge so many seconds after NOW, without chance."""
    now = NOW + timedelta(seconds=after)
    return judge(row, name, tally, TERMS, now, lambda low, high: (low + high) / 2)


def test_failures_in_a_row_open_it() -> None:
    """Within the window; a host takes twice as many, and a success none."""
    first = judged(None, Tally(failed=2)).row
    assert first is not None
    assert judged(first, Tally(failed=1), 61).wait is None
    assert judged(first, Tally(failed=1), 59).wait == 30
    assert judged(first, Tally(failed=5, succeeded=1)) == BreakerVerdict(None)
    assert judged(None, Tally(failed=5), name=HOST).wait is None
    assert judged(None, Tally(failed=6), name=HOST).wait == 30


def test_each_probe_that_fails_doubles_the_wait() -> None:
    """Up to a limit; what fails beside an open one changes nothing, and a success ends it."""
    row = judged(None, Tally(failed=3)).row
    waits = []
    for _ in range(4):
        assert row is not None
        assert row.probe_at is not None
        assert half_open(row, row.probe_at - timedelta(seconds=1)) is None
        assert judged(row, Tally(failed=9)).wait is None
        tried = half_open(row, row.probe_at)
        assert tried is not None
        assert tried.state is BreakerState.HALF_OPEN
        verdict = judged(tried, Tally(failed=1))
        waits.append(verdict.wait)
        row = verdict.row
    assert waits == [60, 100, 100, 100]
    assert judged(tried, Tally(succeeded=1)) == BreakerVerdict(None, closes=True)


def test_who_asks_for_quiet_gets_it() -> None:
    """As long as it says, whatever else has succeeded; it has not failed."""
    verdict = judged(None, Tally(succeeded=3, hold=7.0))
    assert (verdict.wait, verdict.row and verdict.row.failing_since) == (7.0, None)
    assert judged(verdict.row, Tally(hold=9.0)).wait is None


def test_days_of_only_failures_disable() -> None:
    """An endpoint, and no host."""
    row = judged(None, Tally(failed=1)).row
    late = TERMS.disable_after
    assert not judged(row, Tally(failed=1), late - 1).disable
    assert judged(row, Tally(failed=1), late).disable
    assert not judged(row, Tally(failed=1), late, HOST).disable
