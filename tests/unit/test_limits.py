"""The rule of limits: who is let in, what a value is, and when there will be a token."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from mutirao import Mutirao
from mutirao.federation import Federation, SigningKey
from mutirao.model.limits.limit_values import value_of
from mutirao.model.limits.limits import (
    Candidate,
    CounterName,
    Limit,
    Rule,
    admit,
    candidate,
    filled,
    next_look,
    pace_of,
    pause_of,
)
from mutirao.model.webhooks.endpoints import Endpoint, limit_name

A, B = CounterName("a", ""), CounterName("b", "x")
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def test_nobody_is_let_in_by_half() -> None:
    """A job that one limit blocks leaves the room in the other to those behind it."""
    jobs = [Candidate(1, (A, B)), Candidate(2, (A, B)), Candidate(3, (A,)), Candidate(4, ())]
    taken, parked = admit(jobs, {A: 2, B: 1}, 9)
    assert [job.id for job in taken] == [1, 3, 4]
    assert parked == {2: B}


def test_no_more_than_asked() -> None:
    """Those beyond are left where they are, unless a limit is full."""
    jobs = [Candidate(n, (A,)) for n in range(4)]
    taken, parked = admit(jobs, {A: 2}, 1)
    assert ([job.id for job in taken], parked) == ([0], {})
    taken, parked = admit(jobs, {A: 1}, 1)
    assert ([job.id for job in taken], parked) == ([0], {1: A, 2: A, 3: A})


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ('{"t": "a"}', "a"), ('{"t": 7}', "7"), ('{"t": null}', ""), ("{}", ""),
        ('{"t": true}', "true"), ('{"t": {"x":[1]}}', '{"x":[1]}'), ('{"t": "é"}', "é"),
        ('{"t": "' + "x" * 300 + '"}', "x" * 200),
    ],
)  # fmt: skip
def test_values(args: str, value: str) -> None:
    """Text as JSON shows it."""
    assert value_of(args, "t") == value


def test_what_covers_a_job() -> None:
    """By queue, by task, by value; a pause of a value only those that have it."""
    rules = [
        Limit(1).on(queue="q"), Limit(1, by="t").on(task="f"), Limit(1).on(task="g"),
        pause_of(None, "f", "t", "a"), pause_of(None, "f", "t", "b"),
    ]  # fmt: skip
    found = candidate(1, "q", "f", '{"t": "a"}', rules).counters
    assert found == (("queue q", ""), ("task f by t", "a"), ("pause task f t=a", ""))


def test_tokens() -> None:
    """They come evenly, up to the burst; a clock that goes back brings none."""
    rule = Limit(60, per=timedelta(minutes=1), burst=5).on(queue="q")
    assert (rule.per, rule.burst, rule.name) == (60, 5, "queue q rate")
    assert filled(rule, 1, NOW, NOW + timedelta(seconds=2.5)) == 3.5
    assert filled(rule, 1, NOW, NOW + timedelta(hours=1)) == 5
    assert filled(rule, 1, NOW, NOW - timedelta(hours=1)) == 1
    assert next_look(rule, 0.25) == 0.75
    fast = Rule(name="n", queue="q", most=1_000, per=1.0, burst=10)
    assert next_look(fast, 0.0) == 0.005
    assert next_look(Rule(name="n", queue="q", most=1_000, per=1.0, burst=100), 0.0) == 0.02


@given(st.floats(0.1, 2_000.0))
def test_no_second_holds_more_than_its_rate(rate: float) -> None:
    """However soon tokens are used after a rest; and a long run has nearly as many."""
    pace = pace_of(rate)
    come = math.ceil(1 / pace.per - 1e-9)  # 1 / (1 / 856) is a little more than 856
    tokens = pace.burst + come - 1  # in a second that begins with a burst
    assert tokens <= math.ceil(rate)
    assert 1 / pace.per >= 0.95 * rate


def _no_key(actor: str) -> SigningKey:
    raise AssertionError(f"{actor} sends nothing")


def test_who_says_a_rate_by_the_second() -> None:
    """Endpoints and federations reckon alike."""
    asked = Endpoint(id="erp", url="https://example.org", topics=("order.*",), rate=100)
    paced = asked.rules[limit_name("endpoint", "erp", "rate")]
    assert paced is not None
    assert paced.per is not None
    assert (paced.most, paced.burst, round(paced.most / paced.per)) == (1, 5, 96)
    app = Mutirao("sqlite:///shop.db")
    Federation(app, keys=_no_key, rate=5)
    [rule] = [each for each in app.limits.declared() if each.per is not None]
    assert (rule.most, rule.per, rule.burst) == (1, 0.2, 1)
