"""`fairness`: the same jobs are done three times, and single ones come among them."""

from __future__ import annotations

import pytest

from tests.integration.benchmarks.conftest import Bench


@pytest.mark.repeats(decided="tests/integration/limits")
def test_three_times(sqlite_bench: Bench) -> None:
    """Without turns, of some tenants, and of one, among whose jobs others come."""
    found = sqlite_bench.one("fairness", "--jobs", 300, "--keys", 7, "--singles", 2)
    for each, jobs in (("unfair", 300), ("fair", 300), ("single", 302)):
        sqlite_bench.check_cost(found[each], jobs)
    assert len(found["before"]) == 2
    assert found["waited"]["p50"] > 0
