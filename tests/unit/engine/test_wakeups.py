"""When a worker wants to be notified: while it would sleep otherwise."""

from __future__ import annotations

from mutirao.engine.claiming.wakeups import (
    BUSY_JOBS_PER_WINDOW,
    CALM_JOBS_PER_WINDOW,
    LONGEST_PAUSE,
    MAX_EMPTY_CLAIMS,
    SHORTEST_PAUSE,
    WINDOW_SECONDS,
    ListenPolicy,
    Look,
)


def test_a_worker_that_rests_is_not_busy() -> None:
    """A job now and then leaves it listening."""
    attention = ListenPolicy(0.0)
    for second in range(1, 20):
        attention.had_time(second)
        attention.took(1, second + 0.1)
        assert not attention.busy(second + 0.1)


def test_more_than_it_wants_for_a_while() -> None:
    """It finds jobs by itself, and need not be told."""
    attention = ListenPolicy(0.0)
    attention.took(1, 0.1)
    assert not attention.busy(WINDOW_SECONDS)
    assert attention.busy(WINDOW_SECONDS + 0.01)
    attention.had_time(WINDOW_SECONDS + 0.02)
    assert not attention.busy(WINDOW_SECONDS + 0.02)


def busy(attention: ListenPolicy, now: float) -> bool:
    """Return whether it is busy though it has had time."""
    attention.had_time(now)
    return attention.busy(now)


def test_many_jobs() -> None:
    """At once, until fewer come in a window; half of them are enough to remain so."""
    attention = ListenPolicy(0.0)
    attention.took(BUSY_JOBS_PER_WINDOW, 0.1)
    assert busy(attention, 0.1)
    assert busy(attention, WINDOW_SECONDS + 0.01)
    attention.took(CALM_JOBS_PER_WINDOW, WINDOW_SECONDS + 0.02)
    assert busy(attention, 2 * WINDOW_SECONDS + 0.02)
    attention.took(CALM_JOBS_PER_WINDOW - 1, 2 * WINDOW_SECONDS + 0.03)
    assert not busy(attention, 3 * WINDOW_SECONDS + 0.03)


def test_one_after_another() -> None:
    """Though each look finds one."""
    attention = ListenPolicy(0.0)
    attention.took(BUSY_JOBS_PER_WINDOW, 0.1)
    moments = [0.1 + n / 100 for n in range(60)]
    for moment in moments:
        attention.took(1, moment)
    assert not busy(attention, moments[-1])


def test_none_came_in_a_whole_window() -> None:
    """What came before it does not count any more."""
    attention = ListenPolicy(0.0)
    attention.took(BUSY_JOBS_PER_WINDOW, 0.1)
    assert not busy(attention, 2 * WINDOW_SECONDS + 0.01)


def test_looking_in_vain() -> None:
    """So many times in a row, and it listens again; what it finds begins the count anew."""
    attention = ListenPolicy(0.0)
    for _ in range(MAX_EMPTY_CLAIMS - 1):
        assert not attention.record_empty_claim()
    attention.took(1, 0.1)
    for _ in range(MAX_EMPTY_CLAIMS - 1):
        assert not attention.record_empty_claim()
    assert attention.record_empty_claim()
    assert not attention.record_empty_claim()


def test_looking_again() -> None:
    """At once, as long as that finds something; seldom where it is told of what there is."""
    attention = ListenPolicy(0.0)
    assert attention.hurries
    for look, found, hurries, pauses in (
        (Look.AT_ONCE, True, True, 1),
        (Look.IN_TURN, False, True, 1),
        (Look.AT_ONCE, False, False, 1),
        (Look.WOKEN, True, False, 1),
        (Look.USUAL, False, False, 1),
        (Look.IN_TURN, False, False, 2),
        (Look.IN_TURN, False, False, 2),
        (Look.WOKEN, False, False, 2),
        (Look.IN_TURN, False, False, 2),
        (Look.IN_TURN, True, True, 1),
    ):
        attention.look = look
        attention.looked(found)
        assert (attention.hurries, attention.pause) == (hurries, pauses * SHORTEST_PAUSE)
    for look in 9 * (Look.WOKEN, Look.IN_TURN):
        attention.look = look
        attention.looked(look is Look.WOKEN)
    assert attention.pause == LONGEST_PAUSE
    looks = next(n for n in range(1, 99) if attention.record_empty_claim())
    assert looks * LONGEST_PAUSE < 2 * MAX_EMPTY_CLAIMS * SHORTEST_PAUSE


def test_who_hears_looks_as_often_as_ever() -> None:
    """It is told of nothing only until it has time, and then it listens."""
    attention = ListenPolicy(0.0)
    for look in 9 * (Look.WOKEN, Look.IN_TURN):
        attention.look = look
        attention.looked(look is Look.WOKEN, hears=True)
        assert attention.pause == SHORTEST_PAUSE


def test_listening_again_forgets_the_rush() -> None:
    """A single job afterwards does not make it busy."""
    attention = ListenPolicy(0.0)
    attention.took(10 * BUSY_JOBS_PER_WINDOW, 0.1)
    while not attention.record_empty_claim():
        pass
    attention.had_time(0.2)
    attention.took(1, 0.21)
    assert not attention.busy(0.21)
