"""`bench schedules`: each schedule ticks once, and none of them stays."""

from __future__ import annotations

import pytest

from tests.integration.benchmarks.conftest import Bench


@pytest.mark.repeats(decided="tests/integration/schedules")
def test_due_and_at_rest(sqlite_bench: Bench) -> None:
    """A rate for each number of schedules and of workers; statements beside some at rest."""
    words = ("--due", "3,5", "--workers", "1,2", "--resting", 20)
    found = sqlite_bench.one("schedules", *words, "--seconds", 0.5, "--settling", 0)
    assert [row[:2] for row in found["ticks"]] == [[3, 1], [3, 2], [5, 1], [5, 2]]
    assert all(rate > 0 for _, _, rate in found["ticks"])
    assert found["resting"] == 20
    assert found["alone"] >= 0
    assert found["beside"] >= 0
    assert sqlite_bench.ask("SELECT count(*) FROM mutirao_schedule") == 0
