"""When failed jobs run again: policies are pure functions, signals say what a handler wants."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mutirao.model.jobs.retry import (
    DEFAULT_MAX_ATTEMPTS,
    MIN_SNOOZE,
    SECONDS_PER_DAY,
    Cancel,
    Dead,
    Retry,
    RetryPolicy,
    Signal,
    Snooze,
    seconds,
)
from mutirao.model.jobs.retry_words import policy_in_words

attempts = st.integers(min_value=1, max_value=2**31 - 1)
MOMENT = datetime(2026, 3, 1, tzinfo=UTC)


class Refused(ConnectionError):
    """A particular kind of ConnectionError."""


def waits(policy: RetryPolicy, number: int) -> list[float]:
    """Return the waits after the first so many attempts."""
    return [policy.delay(attempt) for attempt in range(1, number + 1)]


@pytest.mark.parametrize(
    ("given_as", "expected"),
    [(3, 3.0), (0.25, 0.25), (timedelta(minutes=2), 120.0), (timedelta(milliseconds=5), 0.005)],
)
def test_lengths_of_time(given_as: float | timedelta, expected: float) -> None:
    """Numbers are seconds; a `timedelta` is what it says."""
    assert seconds(given_as) == expected
    assert isinstance(seconds(given_as), float)


class TestPolicies:
    """The five ways to wait, and none."""

    def test_exponential(self) -> None:
        """Doubling from the base; without jitter exactly so."""
        policy = Retry.exponential(jitter=0)
        assert waits(policy, 5) == [5.0, 10.0, 20.0, 40.0, 80.0]
        assert policy.max_attempts == DEFAULT_MAX_ATTEMPTS
        tripling = Retry.exponential(base=timedelta(seconds=1), factor=3, jitter=0)
        assert waits(tripling, 4) == [1.0, 3.0, 9.0, 27.0]

    def test_exponential_has_a_maximum(self) -> None:
        """A day unless told otherwise."""
        capped = Retry.exponential(maximum=timedelta(seconds=12), jitter=0)
        assert waits(capped, 4) == [5.0, 10.0, 12.0, 12.0]
        assert Retry.exponential(jitter=0).delay(30) == SECONDS_PER_DAY

    @given(attempt=attempts, jitter=st.floats(min_value=0, max_value=1))
    def test_jitter_is_a_share_of_the_wait(self, attempt: int, jitter: float) -> None:
        """Never further away than that, never negative, never too large for a float."""
        plain = Retry.exponential(jitter=0).delay(attempt)
        wait = Retry.exponential(jitter=jitter).delay(attempt)
        assert plain * (1 - jitter) - 1e-6 <= wait <= plain * (1 + jitter) + 1e-6
        assert wait >= 0
        assert math.isfinite(wait)

    def test_jitter_spreads(self) -> None:
        """Jobs that failed together do not come back together."""
        policy = Retry.exponential(jitter=0.1)
        assert len({policy.delay(3) for _ in range(50)}) > 40

    def test_linear(self) -> None:
        """One interval, two, three."""
        assert waits(Retry.linear(interval=7), 4) == [7.0, 14.0, 21.0, 28.0]
        assert waits(Retry.linear(interval=timedelta(minutes=1)), 2) == [60.0, 120.0]

    def test_fixed(self) -> None:
        """The same every time."""
        assert waits(Retry.fixed(interval=timedelta(seconds=9)), 3) == [9.0, 9.0, 9.0]

    def test_delays(self) -> None:
        """The listed waits, then the last one again should the limit be raised for one job."""
        policy = Retry.delays(1, timedelta(seconds=30), 600)
        assert waits(policy, 5) == [1.0, 30.0, 600.0, 600.0, 600.0]
        assert policy.max_attempts == 4

    def test_no_delays(self) -> None:
        """An empty list is a single attempt."""
        policy = Retry.delays()
        assert (policy.max_attempts, policy.delay(1)) == (1, 0.0)

    def test_by_a_function(self) -> None:
        """It is asked with the attempt and the error, and may answer with a `timedelta`."""
        asked: list[tuple[int, BaseException | None]] = []

        def wait(attempt: int, error: BaseException | None) -> float | timedelta:
            asked.append((attempt, error))
            return timedelta(seconds=attempt) if error else 0.5

        policy, error = Retry.by(wait, 3), KeyError("x")
        assert [policy.delay(4, error), policy.delay(1)] == [4.0, 0.5]
        assert asked == [(4, error), (1, None)]

    def test_a_negative_answer_is_none(self) -> None:
        """Nothing waits backwards."""
        assert Retry.by(lambda attempt, error: -5.0).delay(1) == 0.0

    def test_never(self) -> None:
        """One attempt."""
        assert Retry.never().max_attempts == 1

    @pytest.mark.parametrize("limit", [0, -1])
    def test_at_least_one_attempt(self, limit: int) -> None:
        """Less is refused, and the message says what to give."""
        with pytest.raises(ValueError, match=rf"max_attempts is {limit}; .* give\s1"):
            Retry.fixed(limit)

    @pytest.mark.parametrize(
        "make",
        [
            Retry.exponential,
            Retry.linear,
            Retry.fixed,
            lambda attempts, **rest: Retry.by(lambda _, __: 1.0, attempts, **rest),
            lambda attempts, **rest: Retry.delays(*[1.0] * (attempts - 1), **rest),
        ],
    )
    def test_every_policy_takes_the_same_limits(self, make: Any) -> None:
        """`only`, `never` and `by_type` belong to all of them."""
        other = Retry.fixed(2)
        policy = make(6, only=(OSError,), never=(FileNotFoundError,), by_type={KeyError: other})
        assert policy.max_attempts == 6
        assert (policy.only, policy.never) == ((OSError,), (FileNotFoundError,))
        assert policy.by_type == ((KeyError, other),)


class TestByException:
    """Which errors may be tried again, and by which policy."""

    @pytest.mark.parametrize(
        ("error", "expected"),
        [(ConnectionError(), True), (Refused(), True), (KeyError(), False), (None, True)],
    )
    def test_only(self, error: BaseException | None, expected: bool) -> None:
        """Those and their subclasses; without an error there is nothing against it."""
        assert Retry.fixed(only=(ConnectionError,)).retries(error) is expected

    def test_never(self) -> None:
        """These are final, even where `only` has them."""
        policy = Retry.fixed(only=(ConnectionError,), never=(Refused,))
        assert policy.retries(ConnectionError())
        assert not policy.retries(Refused())
        assert not Retry.fixed(never=(KeyError,)).retries(KeyError())

    def test_everything_by_default(self) -> None:
        """Any error may be tried again."""
        assert Retry.fixed().retries(KeyError())
        assert Retry.fixed().retries(SystemExit())

    def test_by_type(self) -> None:
        """The first match wins, subclasses included; otherwise the policy itself."""
        patient, quick = Retry.fixed(interval=600), Retry.fixed(interval=1)
        policy = Retry.exponential(by_type={Refused: patient, ConnectionError: quick})
        assert policy.for_error(Refused()) is patient
        assert policy.for_error(ConnectionResetError()) is quick
        assert policy.for_error(KeyError()) is policy
        assert policy.for_error(None) is policy


class TestSignals:
    """What handlers raise."""

    def test_they_are_one_family(self) -> None:
        """A handler that catches its own errors should let these through."""
        for signal in (Retry(), Snooze(), Dead(), Cancel()):
            assert isinstance(signal, Signal)
            assert isinstance(signal, Exception)
            assert str(signal)

    @pytest.mark.parametrize("signal", [Retry, Snooze])
    def test_after(self, signal: type[Retry] | type[Snooze]) -> None:
        """Seconds or a `timedelta`."""
        assert signal(5).after == 5.0
        assert signal(timedelta(minutes=1)).after == 60.0
        assert signal(0).after == (MIN_SNOOZE if signal is Snooze else 0.0)

    def test_without_a_wait(self) -> None:
        """A retry leaves it to the policy, a snooze does not wait."""
        assert (Retry().after, Retry().at) == (None, None)
        assert (Snooze().after, Snooze().at) == (1.0, None)

    @pytest.mark.parametrize("signal", [Retry, Snooze])
    def test_at(self, signal: type[Retry] | type[Snooze]) -> None:
        """An aware moment, in any time zone."""
        moment = MOMENT.astimezone(timezone(timedelta(hours=5)))
        assert signal(at=moment).at == MOMENT

    @pytest.mark.parametrize("signal", [Retry, Snooze])
    def test_a_naive_moment(self, signal: type[Retry] | type[Snooze]) -> None:
        """Is refused, naming it: nobody knows which moment it is."""
        with pytest.raises(ValueError, match=r"at=….* naive datetime 2026-03-01 .* time zone"):
            signal(at=MOMENT.replace(tzinfo=None))

    @pytest.mark.parametrize("signal", [Retry, Snooze])
    @pytest.mark.parametrize("wait", [-1, -0.001, timedelta(seconds=-1), math.nan])
    def test_a_negative_wait(
        self, signal: type[Retry] | type[Snooze], wait: float | timedelta
    ) -> None:
        """Is refused, and so is one that is no number."""
        with pytest.raises(ValueError, match="give 0 or more"):
            signal(wait)

    @pytest.mark.parametrize(
        "signal",
        [Retry(reason="why"), Snooze(1, reason="why"), Dead("why"), Cancel("why")],
        ids=lambda signal: type(signal).__name__,
    )
    def test_reasons(self, signal: Signal) -> None:
        """Are the message, which history keeps."""
        assert str(signal) == "why"


@pytest.mark.parametrize(
    ("words", "attempts", "waits"),
    [
        ("exponential", 10, None),
        ("exponential:0s", 10, [0, 0, 0]),
        ("linear:1m", 10, [60, 120, 180]),
        ("linear", 10, [60, 120, 180]),
        (" fixed:30 ", 10, [30, 30, 30]),
        ("delays:10s, 1m,1.5h", 4, [10, 60, 5_400]),
        ("never", 1, None),
    ],
)
def test_policies_in_words(words: str, attempts: int, waits: list[float] | None) -> None:
    """Each names a policy, and the first wait or the waits."""
    policy = policy_in_words(words)
    assert policy.max_attempts == attempts
    assert waits is None or [policy.delay(n) for n in (1, 2, 3)] == waits


@pytest.mark.parametrize(
    "words",
    ["", "sometimes", "never:5s", "delays", "fixed:1s,2s", "fixed:soon", "fixed:999999999d", ":5s"],
)
def test_words_that_are_no_policy(words: str) -> None:
    """The error says what was found, and what to write."""
    with pytest.raises(ValueError, match=r"write|give at most"):
        policy_in_words(words)
