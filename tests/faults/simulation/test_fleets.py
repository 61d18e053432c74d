"""Simulated fleets: the first seeds find nothing, a seed is replayed exactly, a defect is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from tests.faults.simulation.mutants import MUTANTS
from tests.faults.simulation.run import simulate
from tests.support.repeats import Share

ROOT = Path(__file__).parents[3]
SEEDS, LEAST = 250, 20
MOST = 200  # seeds until a defect has to be found
LONG = 15.0  # seconds: a slow machine does as many as fit, but not fewer than LEAST


def test_seeds(share: Share) -> None:
    """Whatever happens to a fleet, what is promised holds."""
    jobs, end = 0, monotonic() + LONG
    found: list[str] = []
    for seed in range(share(SEEDS)):
        if seed >= LEAST and monotonic() > end:
            break
        result = simulate(seed)
        jobs += result.jobs
        found += [f"seed {seed}: {problem}" for problem in result.problems[:3]]
    assert found == []
    assert jobs > 20 * LEAST


@pytest.mark.repeats(decided="tests/faults/simulation/test_fleets.py")
def test_defects_are_found() -> None:
    """Soon: what finds nothing may look at nothing. In a process of its own: they leave a mess."""
    command = [sys.executable, "-m", "tests.faults.simulation", "--defects", "--seeds", str(MOST)]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    assert ran.stdout.count(": found by seed ") == len(MUTANTS)


def test_the_table_of_races_names_all_defects() -> None:
    """And no others."""
    text = (ROOT / "docs/contributing/faults.md").read_text()
    table = text.split("| the defect that is put in |\n")[1].split("\n\n")[0]
    assert [row.split("|")[2].strip() for row in table.splitlines()[1:]] == list(MUTANTS)


def test_a_seed_is_replayed_exactly() -> None:
    """Or nobody could look closer at what one has found."""
    first, second = simulate(7), simulate(7)
    assert first.story == second.story
    assert len(first.story) > 100
