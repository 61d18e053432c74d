"""Several processes settle the predecessors of a step at the same moment: it is released once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mutirao import GraphState, Mutirao, chain, group
from mutirao.model.graphs.graph import Chain
from mutirao.model.jobs.job import NewJob

ROOT = Path(__file__).parents[3]
RACERS, GRAPHS, WIDTH = 4, 15, 6
NEVER = 1_000_000


@contextmanager
def racer(url: str, kill_after: int) -> Iterator[subprocess.Popen[str]]:
    """Run a program that is about to claim; whatever happens, it does not stay."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.graphs.racing", url, str(kill_after)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready")
        yield process
    finally:
        process.kill()
        process.wait()


def race(url: str, *kill_after: int) -> list[tuple[str, int]]:
    """Let them all begin at once; return what they said."""
    with ExitStack() as stack:
        racers = [stack.enter_context(racer(url, each)) for each in kill_after]
        for each in racers:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        said = [each.communicate(timeout=100)[0] for each in racers]
    lines = [line.split() for each in said for line in each.splitlines()]
    return [(what, int(id)) for what, id in lines]


def diamond() -> Chain:
    """A step, a group after it, and one after that."""
    job = NewJob(task="t")
    return chain(job, group([job] * WIDTH), job)


@pytest.mark.repeats(decided="tests/integration/graphs/test_race.py")
async def test_a_race(app: Mutirao, url: str) -> None:
    """Every step is run exactly once, and none before its predecessors have succeeded."""
    handles = [await app.aenqueue_graph(diamond()) for _ in range(GRAPHS)]
    said = race(url, *[NEVER] * RACERS)
    ids = sorted(job.id for handle in handles for job in handle.jobs)
    assert Counter(id for what, id in said if what == "began") == Counter(ids)
    assert Counter(id for what, id in said if what == "settled") == Counter(ids)
    assert {graph.state for graph in await app.agraphs()} == {GraphState.SUCCEEDED}
    await nothing_was_too_early(app)


@pytest.mark.repeats("sqlite", decided="tests/conformance")
async def test_a_race_with_sigkill(app: Mutirao, url: str) -> None:
    """Killed processes lose nothing: what they held runs again, and what follows it after that."""
    for _ in range(GRAPHS):
        await app.aenqueue_graph(diamond())
    race(url, 0, 0)  # beside quicker ones they might find nothing to die with
    long_after = datetime.now(UTC) + timedelta(hours=2)
    assert await app.store.rescue(now=long_after) != []
    race(url, 3, NEVER, NEVER)
    await app.store.rescue(now=long_after + timedelta(hours=2))
    race(url, NEVER, NEVER)
    assert {graph.state for graph in await app.agraphs()} == {GraphState.SUCCEEDED}
    await nothing_was_too_early(app)


async def nothing_was_too_early(app: Mutirao) -> None:
    """Each job began, for the last time, when those it waits for had ended."""
    for listed in await app.agraphs():
        graph = await app.agraph(listed.id)
        jobs = {step.job: await app.ajob(step.job) for step in graph.steps}
        for step in graph.steps:
            began = min(attempt.started_at for attempt in jobs[step.job].attempts)
            for before in step.after:
                ended = jobs[before].finished_at
                assert ended is not None
                assert ended <= began
        assert sum(len(step.after) for step in graph.steps) == 2 * WIDTH
