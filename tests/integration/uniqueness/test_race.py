"""Several processes want one key at the same moment: one job has it, always."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mutirao import Mutirao
from mutirao.model.jobs.job import JobState

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")

ROOT = Path(__file__).parents[3]
RACERS, ROUNDS = 4, 60


@contextmanager
def racer(url: str, mode: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that is about to enqueue; whatever happens, it does not stay."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.uniqueness.racing", url, mode, str(ROUNDS)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def race(url: str, mode: str) -> list[tuple[str, int, str]]:
    """Let them all begin at once; return what each was told: the key, an id, and how."""
    with ExitStack() as stack:
        racers = [stack.enter_context(racer(url, mode)) for _ in range(RACERS)]
        for each in racers:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        seen = [each.communicate(timeout=100)[0] for each in racers]
        assert [each.returncode for each in racers] == [0] * RACERS
    lines = [line.split() for each in seen for line in each.splitlines()]
    return [(f"k{n}", int(id), how) for n, id, how in lines]


@pytest.mark.repeats("keep", decided="tests/integration/uniqueness/test_race.py")
@pytest.mark.parametrize("mode", ["keep", "replace", "rerun"])
async def test_a_race(app: Mutirao, url: str, mode: str) -> None:
    """Each key has exactly one live job in the end, and everybody was told the truth."""
    found = race(url, mode)
    assert len(found) == RACERS * ROUNDS
    jobs = await app.ajobs(limit=None)
    live = Counter(job.key for job in jobs if job.state == JobState.READY)
    assert live == {f"k{n}": 1 for n in range(ROUNDS)}
    hows: dict[str, Counter[str]] = defaultdict(Counter)
    for key, _, how in found:
        hows[key][how] += 1
    other = "found" if mode == "keep" else "replaced"
    assert all(each == {"inserted": 1, other: RACERS - 1} for each in hows.values())
    written = {(key, id) for key, id, _ in found}
    assert written == {(job.key, job.id) for job in jobs}
