"""`bench pinned` and `bench backlog`: curves, as figures and as plots."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

import pytest
from sqlalchemy import create_engine, text

from benchmarks.backlog import BATCH
from benchmarks.ground import ground
from benchmarks.pinned import held
from tests.integration.benchmarks.conftest import Bench

PINNED = ("pinned", "--rounds", 4, "--jobs", 50)
BACKLOG = ("backlog", "--jobs", 200, "--claims", 3)


@pytest.mark.repeats("postgresql", "mysql", decided="tests/integration/benchmarks/test_rounds.py")
def test_rounds_with_a_snapshot_held(every_bench: Bench) -> None:
    """A rate for each round, the last ones compared with the first; one more warms up."""
    found = every_bench.one(*PINNED)
    rates = [each["drained"] for each in found["rounds"]]
    assert len(rates) == 4
    assert min(rates) > 0
    assert found["held"] is True
    assert found["first"] == pytest.approx(median(rates[:2]))
    assert found["last"] == pytest.approx(median(rates[2:]))
    assert found["ratio"] == pytest.approx(found["last"] / found["first"])
    every_bench.check_cost(found["cost"], 250)
    every_bench.check_history(250)


async def test_the_snapshot_keeps_dead_rows(migrated_postgresql_url: str) -> None:
    """What it is there for: vacuum may not remove what was deleted after it was taken."""
    engine = create_engine(migrated_postgresql_url, isolation_level="AUTOCOMMIT")
    size = "SELECT pg_relation_size('thing')"
    async with ground(migrated_postgresql_url) as place:
        with engine.connect() as conn:
            conn.execute(text("CREATE TABLE thing AS SELECT generate_series(1, 100) AS id"))
            async with held(place):
                conn.execute(text("DELETE FROM thing"))
                conn.execute(text("VACUUM thing"))
                assert conn.execute(text(size)).scalar_one() > 0
            conn.execute(text("VACUUM thing"))
            assert conn.execute(text(size)).scalar_one() == 0
    engine.dispose()


@pytest.mark.repeats("postgresql_url", decided="tests/integration/benchmarks/test_rounds.py")
def test_draining_while_many_wait(bench: Bench) -> None:
    """A point for each size; what still waits is what the last one says, and what is for later."""
    found = bench.one(*BACKLOG, "--sizes", "300,100", "--scheduled", 30)
    small, large = found["points"]
    assert (small["waiting"], large["waiting"]) == (100, 300)
    for point in (small, large):
        assert point["rate"] > 0
        assert 0 < point["claim"]["p50"] <= point["claim"]["p99"]
        assert point["cost"]["jobs"] >= 200
    done = sum(point["cost"]["jobs"] for point in (small, large)) + 2 * 3 * BATCH
    assert bench.ask("SELECT count(*) FROM mutirao_attempt") == done
    assert bench.ask("SELECT count(*) FROM mutirao_live") == 300 + 30


@pytest.mark.repeats("postgresql_url", decided="tests/integration/benchmarks/test_rounds.py")
def test_draining_from_many_lanes(bench: Bench) -> None:
    """The jobs are spread over all pairs of a queue and a priority."""
    found = bench.one(*BACKLOG, "--sizes", 100, "--queues", 5, "--priorities", 2)
    assert (found["queues"], found["priorities"]) == (5, 2)
    lanes = "SELECT count(*) FROM (SELECT DISTINCT queue, priority FROM mutirao_job) AS lanes"
    assert bench.ask(lanes) == 10


@pytest.mark.repeats("png", decided="tests/integration/benchmarks/test_rounds.py")
@pytest.mark.parametrize(
    ("suffix", "beginning"), [(".svg", b"<?xml"), (".png", b"\x89PNG")], ids=["svg", "png"]
)
@pytest.mark.parametrize(
    "work", [PINNED, (*BACKLOG, "--sizes", "10,20")], ids=["pinned", "backlog"]
)
def test_plots(
    sqlite_bench: Bench, tmp_path: Path, work: tuple[object, ...], suffix: str, beginning: bytes
) -> None:
    """A file of the kind its name says; what is printed stays one document."""
    path = tmp_path / f"plot{suffix}"
    printed = sqlite_bench.ok(*work, "--plot", path, "--json")
    assert path.read_bytes().startswith(beginning)
    assert json.loads(printed)["work"] == work[0]


def test_plots_that_are_not_possible(
    sqlite_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said before anything is measured."""
    wrong = sqlite_bench.refused(2, *PINNED, "--plot", tmp_path / "plot.pdf")
    assert "must end with .svg or .png" in wrong
    nowhere = sqlite_bench.refused(2, *PINNED, "--plot", tmp_path / "none" / "plot.svg")
    assert "no directory" in nowhere
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    missing_one = sqlite_bench.refused(2, *PINNED, "--plot", tmp_path / "plot.svg")
    assert "pip install matplotlib" in missing_one
    assert not (tmp_path / "mutirao.db").exists()


@pytest.mark.parametrize("sizes", ["many", "1000,0", "-5", "1000,,2000"])
def test_sizes_that_are_none(sqlite_bench: Bench, sizes: str) -> None:
    """They are named, with an example."""
    said = sqlite_bench.refused(2, *BACKLOG, "--sizes", sizes)
    assert "write 1000,10000" in said
