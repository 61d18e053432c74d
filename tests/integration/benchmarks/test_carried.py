"""`bench carried`: some jobs, and a moment of idle workers."""

from __future__ import annotations

from tests.integration.benchmarks.conftest import Bench


def test_carried(sqlite_bench: Bench) -> None:
    """Both ways do all jobs; what one takes is told beside the other."""
    short = "--jobs", 30, "--workers", 1, "--seconds", 0.5, "--settling", 0
    found = sqlite_bench.one("carried", *short)
    assert found["by_sql"]["jobs"] == found["carried"]["jobs"] == 30
    assert found["carried"]["statements"] > found["by_sql"]["statements"] > 0
