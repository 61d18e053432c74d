"""`bench publish`: what publishing costs, and fan-outs beside an INSERT of the same rows."""

from __future__ import annotations

import pytest

from tests.integration.benchmarks.conftest import Bench


@pytest.mark.repeats("postgresql", decided="tests/integration/benchmarks/test_publish.py")
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_publish(request: pytest.FixtureRequest, database: str) -> None:
    """All deliveries are made and written again; each ratio is of what was measured."""
    bench: Bench = request.getfixturevalue(f"{database}_bench")
    found = bench.one("publish", "--jobs", 1, "--told", "10,1200")
    assert [each["subscriptions"] for each in found["told"]] == [10, 1200]
    assert all(each["fan_out"] > 0 < each["insert"] for each in found["told"])
    assert min(found[name] for name in ("enqueue", "publish", "publish_to_many")) > 0
