"""`bench transactions`: the same rows are committed by handlers and by the driver's own loop."""

from __future__ import annotations

import pytest

from tests.integration.benchmarks.conftest import Bench

JOBS = 60
HANDLERS = {each + way for each in ("coroutine", "thread") for way in ("", ", connection=True")}
KINDS = ("handlers", "raw", "sessions")
RAW = {"threads, 1", "threads, 2", "coroutines, 1", "coroutines, 2"}


@pytest.mark.repeats(decided="tests/integration/benchmarks/test_drain.py")
def test_handlers_and_raw_loops(every_bench: Bench) -> None:
    """Both kinds of handler; the driver's loop on one connection and on as many; no table stays."""
    found = every_bench.one("transactions", "--jobs", JOBS, "-c", 2)
    assert set(found["handlers"]) == HANDLERS
    assert set(found["raw"]) == RAW
    assert set(found["sessions"]) == {"coroutine", "thread"}
    for cost in (each for kind in KINDS for each in found[kind].values()):
        every_bench.check_cost(cost, JOBS)
    assert every_bench.ask("SELECT count(*) FROM mutirao_job") == 0


@pytest.mark.repeats(decided="tests/integration/benchmarks/test_drain.py")
def test_ratios_for_people(sqlite_bench: Bench) -> None:
    """Of what the driver alone commits."""
    found = sqlite_bench.ok("transactions", "--jobs", 20, "-c", 2)
    assert "thread, of raw on one connection" in found
    assert "coroutine, of the fastest raw" in found
    assert "coroutine, of bare sessions" in found
