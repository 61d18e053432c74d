"""How much is held ready follows how long handlers take."""

from __future__ import annotations

from mutirao.engine.dispatch.slots import Pace


def test_before_anything_is_known_one_job_a_slot_is_held_ready() -> None:
    """The first claims must neither starve nor hoard."""
    assert Pace(prefetch=0.1, most=1000).ahead(20) == 20


def test_short_jobs_are_held_ready_up_to_the_bound() -> None:
    """Ten microseconds: 100 ms of work would be 200,000 jobs."""
    pace = Pace(prefetch=0.1, most=1000)
    pace.took(1e-5)
    assert pace.ahead(20) == 1000


def test_long_jobs_are_not_held_ready() -> None:
    """A job that takes a second waits where any worker can take it."""
    pace = Pace(prefetch=0.1, most=1000)
    pace.took(1.0)
    assert pace.ahead(9) == 0


def test_a_handler_that_takes_no_time_at_all_is_no_error() -> None:
    """Clocks have a grain."""
    pace = Pace(prefetch=0.1, most=1000)
    pace.took(0.0)
    assert pace.ahead(1) == 1000


def test_handlers_that_still_run_count_at_once() -> None:
    """Short jobs before them must not make long ones look short."""
    pace = Pace(prefetch=0.1, most=1000)
    for _ in range(100):
        pace.took(1e-5)
    pace.takes_at_least(2.0)
    assert pace.ahead(2) == 0


def test_the_mean_comes_down_again() -> None:
    """A burst of long jobs is forgotten after about a hundred short ones."""
    pace = Pace(prefetch=0.1, most=1000)
    pace.takes_at_least(2.0)
    for _ in range(200):
        pace.took(1e-4)
    assert pace.ahead(20) > 500


def test_lost_slots_hold_nothing_ready() -> None:
    """With every slot stuck there is nothing to claim for."""
    pace = Pace(prefetch=0.1, most=1000)
    pace.took(1e-4)
    assert pace.ahead(0) == 0
