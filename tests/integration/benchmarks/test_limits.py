"""`bench limits`: the same jobs are done three times, and nothing of it stays in force."""

from __future__ import annotations

import pytest

from tests.integration.benchmarks.conftest import Bench


@pytest.mark.repeats(decided="tests/integration/limits")
def test_three_times(sqlite_bench: Bench) -> None:
    """Without limits, with them, and with blocked jobs before them."""
    words = ("--jobs", 200, "--keys", 7, "--most", 2, "--blocked", 150)
    found = sqlite_bench.one("limits", *words)
    for each in ("unlimited", "limited", "behind"):
        sqlite_bench.check_cost(found[each], 200)
    assert found["parking"] > 0
    assert sqlite_bench.ask("SELECT count(*) FROM mutirao_limit") == 0
