"""`python -m tests.faults.simulation`: many seeds, or the story of one."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.faults.kit.program import end_with, say, verdict
from tests.faults.simulation.mutants import MUTANTS, mutated
from tests.faults.simulation.run import Result, simulate, simulate_without_story


def main() -> int:
    """Read the options, run, print what was found; exit status 1 if anything was."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.simulation")
    parser.add_argument("--seeds", type=int, default=20_000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="only this one, and print all of it")
    parser.add_argument("--job", type=int, help="print the story of this job only")
    parser.add_argument("--defects", action="store_true", help="put defects in, and find them")
    options = parser.parse_args()
    if options.defects:
        return _find_defects(options.seeds)
    if options.seed is not None:
        return _print_story(simulate(options.seed, log=options.job is None), options.job)
    return _run_many(options.first, options.seeds, options.processes)


def _run_many(first: int, seeds: int, processes: int) -> int:
    began, longest, turns, jobs = time.monotonic(), 0.0, 0, 0
    failures, found = Counter[str](), list[str]()
    with ProcessPoolExecutor(processes) as pool:
        results = pool.map(simulate_without_story, range(first, first + seeds), chunksize=20)
        for n, result in enumerate(results):
            longest, turns = max(longest, result.longest), turns + result.turns
            jobs, failures = jobs + result.jobs, failures + result.failures
            if result.problems:
                found.append(f"seed {result.seed}: {'; '.join(result.problems[:3])}")
                say(found[-1])
            if (n + 1) % 1_000 == 0:
                say(f"{n + 1:,} seeds, {time.monotonic() - began:,.0f} s")
    figures = (
        f"{seeds:,} seeds, {jobs:,} jobs, {turns:,} turns, {time.monotonic() - began:,.0f} s",
        f"from due to start at most {longest:.1f} virtual s",
        f"workers that ended by themselves: {dict(failures)}",
    )
    return verdict(figures, found)


def _find_defects(seeds: int) -> int:
    missed: list[str] = []
    for name in MUTANTS:
        with mutated(name):
            seed = next((seed for seed in range(seeds) if simulate(seed).problems), None)
        if seed is None:
            missed.append(f"{seeds:,} seeds do not find the defect {name!r}")
        else:
            say(f"{name}: found by seed {seed}")
    return verdict([], missed)


def _print_story(result: Result, job: int | None) -> int:
    story = (
        f"{at:8.3f}  {f'job {of}: ' if of is not None else ''}{text}"
        for at, of, text in result.story
        if job is None or of in (job, None)
    )
    return verdict(story, (f"seed {result.seed}: {problem}" for problem in result.problems))


if __name__ == "__main__":
    end_with(main)
