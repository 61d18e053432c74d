"""Waiting for a database: longer each time, never for ever, never at the same moment."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mutirao.aio import FIRST_WAIT, MAX_WAIT, Backoff


def test_it_grows() -> None:
    """Doubling, give or take a half, up to a limit."""
    backoff = Backoff()
    for failures in range(40):
        most = min(MAX_WAIT, FIRST_WAIT * 2**failures)
        assert most / 2 <= backoff.next() <= most


def test_it_spreads() -> None:
    """Workers that lost the database together do not all come back together."""
    waits = set()
    for _ in range(50):
        backoff = Backoff()
        backoff.next()
        waits.add(backoff.next())
    assert len(waits) > 40


@given(failures=st.integers(min_value=0, max_value=30))
def test_success_begins_anew(failures: int) -> None:
    """And tells whether there had been trouble, so that it can be said that it is over."""
    backoff = Backoff()
    for _ in range(failures):
        backoff.next()
    assert backoff.reset() is (failures > 0)
    assert backoff.reset() is False
    assert backoff.next() <= FIRST_WAIT
