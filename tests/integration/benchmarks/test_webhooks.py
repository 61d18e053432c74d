"""`bench webhooks`: each is delivered, and nothing of it stays."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from benchmarks import webhooks
from benchmarks.cli import bench
from benchmarks.posting import Posted
from tests.integration.benchmarks.conftest import Bench


def test_three_times(sqlite_bench: Bench) -> None:
    """By the bare client, by a worker, and beside a peer that is silent and gets few attempts."""
    found = sqlite_bench.one("webhooks", "--jobs", 60)
    assert min(found["bare"], found["delivered"], found["beside"]) > 0
    assert found["asked"] <= webhooks.AT_ONCE
    assert sqlite_bench.ask("SELECT count(*) FROM mutirao_endpoint") == 0
    assert sqlite_bench.ask("SELECT count(*) FROM mutirao_job") == 0


def test_others_beside_us(tmp_path: Path) -> None:
    """What they do is told beside what we do; who cannot work on a database is refused at once."""
    theirs = {"celery": Posted(delivered=100.0, cpu=900.0)}
    ours = {"bare": 400.0, "delivered": 300.0, "beside": 300.0, "asked": 5}
    cpu = {"bare_cpu": 400.0, "delivered_cpu": 500.0}
    found = webhooks.Webhooks(jobs=10, **ours, **cpu, peers=theirs).figures()  # type: ignore[arg-type]
    assert found["celery, deliveries/s"] == 100.0
    assert found["deliveries, of celery's"] == 3.0
    asked = ["webhooks", "-d", f"sqlite:///{tmp_path / 'bench.db'}", "--peers"]
    refused = CliRunner().invoke(bench, [*asked, "huey"])
    assert "'huey' has no adapter; there are celery, procrastinate" in refused.output
    refused = CliRunner().invoke(bench, [*asked, "procrastinate"])
    assert "procrastinate works on PostgreSQL only" in refused.output
