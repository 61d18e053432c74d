"""How long jobs wait for a worker that has time, in virtual time, and what looking costs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.simulation.waits import (
    BEFORE,
    RESTED,
    Arrivals,
    Loop,
    Waits,
    closed_loop,
    drained,
    lived,
    open_loop,
    rested,
    simulated,
    stream,
    together,
)
from tests.support.engine import producer, wakeups

LONGEST = 0.010  # seconds from due to start, of a worker that has time
RATES = {1: 10, 10: 40, 100: 150, 1_000: 700}  # jobs that come in a second, and how many of them
VERY_MANY = 4_000  # jobs in a second: twice as many as make a worker busy


@pytest.mark.repeats("1000", decided="tests/faults/simulation/test_waits.py")
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("loop", [open_loop, closed_loop])
@pytest.mark.parametrize("before", BEFORE)
def test_a_job_starts_soon(before: Callable[[Arrivals], None], loop: Loop, rate: int) -> None:
    """Whether its worker had rested before, has just started, or has done very many jobs."""
    seen = simulated(1, before, loop, rate, RATES[rate])
    assert len(seen.waits) == RATES[rate]
    assert seen.longest <= LONGEST


@pytest.mark.repeats("1000", decided="tests/faults/simulation/test_waits.py")
@pytest.mark.parametrize("rate", [10, 1_000])
@pytest.mark.parametrize("before", BEFORE)
def test_a_job_starts_soon_in_a_fleet(before: Callable[[Arrivals], None], rate: int) -> None:
    """Of which any worker may do it."""
    seen = simulated(3, before, open_loop, rate, RATES[rate])
    assert len(seen.waits) == RATES[rate]
    assert seen.longest <= LONGEST


@pytest.mark.parametrize("loop", [open_loop, closed_loop])
@pytest.mark.parametrize("before", [rested, together])
def test_what_a_job_costs(before: Callable[[Arrivals], None], loop: Loop) -> None:
    """A worker that has time is told of each job, claims once, and does not change its mind."""
    seen = simulated(1, before, loop, 100, 150)
    assert seen.notified == 150
    assert seen.calls["claim"] <= 150
    assert seen.calls["listen"] == 0
    assert seen.calls["lanes"] <= 155  # each time after a claim, where that takes no time


def test_after_very_many() -> None:
    """It listens again at once, and begins to be told of all that comes."""
    seen = simulated(1, drained, open_loop, 20, 40)
    assert seen.calls["listen"] == 1
    assert seen.calls["claim"] <= 40 + 2 * wakeups.WINDOW_SECONDS / 0.005
    assert seen.notified >= 40 - 2 * wakeups.WINDOW_SECONDS * 1.5 * 20


def test_very_many_are_not_notified() -> None:
    """A busy worker looks by itself: commits need not wait for each other because of it."""

    def busy(fleet: Arrivals) -> Waits:
        rested(fleet)
        stream(fleet, VERY_MANY, 2.0)
        fleet.world.run(RESTED + wakeups.WINDOW_SECONDS)
        fleet.forget()
        fleet.world.run(RESTED + 1.98)
        return fleet.seen

    seen = lived(busy)
    assert seen.notified == 0
    assert seen.calls["listen"] == 0
    assert seen.calls["claim"] > 100  # a second


def test_coming_to_rest() -> None:
    """After very many it looks a few times, listens, and is still."""

    def rests(fleet: Arrivals) -> Waits:
        drained(fleet)
        fleet.forget()
        fleet.world.run(fleet.world.now + RESTED)
        return fleet.seen

    seen = lived(rests)
    assert seen.calls["listen"] == 1
    assert seen.calls["claim"] <= wakeups.MAX_EMPTY_CLAIMS + 1


def test_a_new_queue_of_a_busy_worker() -> None:
    """Nobody tells it of that; it looks for new ones."""

    def busy(fleet: Arrivals) -> Waits:
        rested(fleet)
        stream(fleet, VERY_MANY, 1.5)
        fleet.world.at(RESTED + 1.03, lambda: fleet.come("another"))
        fleet.world.run(RESTED + 1.45)
        return fleet.seen

    assert lived(busy).longest <= producer.NEW_LANES_AFTER + LONGEST


def test_who_only_polls_looks_often_among_jobs() -> None:
    """Where the next one comes within a tenth of a second; it was too long as long as it lasted."""

    def busy(fleet: Arrivals) -> Waits:
        together(fleet)
        closed_loop(fleet, 20, 40)
        fleet.world.run(fleet.world.now + 5.0)
        return fleet.seen

    seen = lived(busy, deaf=True)
    assert len(seen.waits) == 40
    assert max(seen.waits[1:]) <= LONGEST  # the first may come during a call of `FIRST_CALL`
