"""Simulated fleets: the first 40 seeds find nothing, and a seed is replayed exactly."""

from __future__ import annotations

import pytest

from tests.simulation.run import simulate

SEEDS, CHUNK = 40, 20  # 500 take a quarter of an hour on a slow machine


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds(first: int) -> None:
    """Whatever happens to a fleet, what is promised holds."""
    jobs, found = 0, []
    for seed in range(first, first + CHUNK):
        result = simulate(seed)
        jobs += result.jobs
        found += [f"seed {seed}: {problem}" for problem in result.problems[:3]]
    assert found == []
    assert jobs > 10 * CHUNK


def test_a_seed_is_replayed_exactly() -> None:
    """Or nobody could look closer at what one has found."""
    first, second = simulate(7), simulate(7)
    assert first.story == second.story
    assert len(first.story) > 100
