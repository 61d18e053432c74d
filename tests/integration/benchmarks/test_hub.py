"""`bench hub`: a hub with a few clients."""

from __future__ import annotations

import pytest

from tests.integration.benchmarks.conftest import Bench


@pytest.mark.repeats(decided="tests/integration/hub")
def test_what_a_hub_does(sqlite_bench: Bench) -> None:
    """Wakes reach the clients, jobs are done by each way, and statements are counted."""
    words = ("--clients", 5, "--rate", 200, "--seconds", 0.5, "--jobs", 2)
    found = sqlite_bench.one("hub", *words, "--workers", 2, "--watched", 0.5, "--settling", 0)
    assert found["carried"]["clients"] == 5
    assert found["carried"]["heard"] > 0
    assert found["own"]["p50"] <= found["own"]["max"] < 60_000
    assert found["looking"] > 0
