"""`bench rabbitmq`: some messages."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner

from benchmarks.cli import bench
from benchmarks.rabbitmq import RabbitResult, Rates
from tests.integration.benchmarks.conftest import Bench
from tests.support.rabbitmq import RabbitServer


def test_both_ways(sqlite_bench: Bench, rabbit: RabbitServer) -> None:
    """All of them are published and drained, by us and by a bare client."""
    found = sqlite_bench.one("rabbitmq", "--broker", rabbit.url(), "--jobs", 30)
    for who in ("own", "bare"):
        assert min(found[who][each] for each in ("one_by_one", "many", "drained", "cpu")) > 0
    assert (len(found["one_by_one"]), len(found["many"])) == (1, 1)


def test_others_beside_us() -> None:
    """What they do is told beside what we do; a name that has no adapter is refused."""
    ours, theirs = (Rates(one_by_one=1.0, many=2.0, drained=each) for each in (6.0, 3.0))
    rates: dict[str, Any] = {"own": ours, "telling": ours, "bare": ours}
    rates |= {"one_by_one": [0.5, 2.0, 0.9], "many": [1.0]}
    found = RabbitResult(**rates, peers={"celery": theirs}).figures()
    assert found["of a bare client's"] == 0.9
    assert found["celery: drained/s"] == 3.0
    assert found["drained, of celery's"] == 2.0
    refused = CliRunner().invoke(bench, ["rabbitmq", "--broker", "amqp://", "--peers", "kombu"])
    assert refused.exit_code == 2
    assert "'kombu' has no adapter; there are celery, dramatiq, taskiq" in refused.output
