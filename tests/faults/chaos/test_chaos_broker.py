"""A short chaos run on a broker, and the proof that its verdict sees what can be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mutirao.model.jobs.job import OutcomeKind
from tests.faults.chaos.blows import CRASH, CUT, PURGE
from tests.faults.chaos.messages import Count
from tests.faults.chaos.run import Plan, run
from tests.support.rabbitmq import RabbitServer


@pytest.mark.repeats(decided="tests/integration/carrying/test_rabbitmq.py")
def test_on_a_broker(rabbit: RabbitServer) -> None:
    """Workers and RabbitMQ are killed, its queues purged, and nobody reaches it for a while.

    Carried jobs and messages that ask the inbox have one effect each, other messages at least one.
    """
    plan = Plan(
        jobs=120,
        inbox=80,
        alone=80,
        workers=2,
        pause=0.3,
        kill_every=1.0,
        freeze_every=0,
        restarts=1,
        cut_for=1.0,
        deadline=150,
    )
    report = run(plan, print, rabbit=rabbit)
    assert report.problems == []
    assert report.outcomes[OutcomeKind.SUCCEEDED] == plan.jobs
    assert report.dealt == {CRASH: 1, PURGE: 1, CUT: 1}
    assert report.kills >= 2


WELL = Count(
    queue="inbox",
    published=3,
    times={0: 1, 1: 1, 2: 1},
    once=True,
    purged=1,
    again=1,
    dropped=1,
    left={},
)


@pytest.mark.parametrize(
    ("expected", "flaw"),
    [
        ({}, None),
        ({"times": {0: 1, 2: 1}}, "1 messages of inbox have no effect: [1]"),
        ({"times": {0: 1, 1: 2, 2: 1}}, "1 messages of inbox had their effect again: [1]"),
        ({"times": {0: 1, 1: 2, 2: 1}, "once": False}, None),
        ({"times": {0: 1, 1: 1, 2: 1, 7: 1}}, "1 messages of inbox were never published: [7]"),
        ({"again": 2}, "2 messages of inbox were lost, and a purge threw 1 away"),
        ({"left": {"chaos-dead.inbox": 1}}, "1 messages of inbox are left in chaos-dead.inbox"),
    ],
)
def test_what_became_of_messages(expected: Mapping[str, Any], flaw: str | None) -> None:
    """What is lost, repeated, made up or left behind is found; repetitions without an inbox not."""
    assert list(replace(WELL, **expected).flaws()) == ([] if flaw is None else [flaw])


def test_repetitions_are_counted() -> None:
    """Where no inbox was asked, they are no flaw."""
    assert replace(WELL, times={0: 1, 1: 3, 2: 2}, once=False).repetitions == 3
