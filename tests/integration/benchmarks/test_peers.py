"""The comparison on MariaDB: adapters that need no environment of their own do their works."""

from __future__ import annotations

import sys

import pytest

from benchmarks.peers import envs
from benchmarks.peers.bench import Peer, record
from benchmarks.peers.records import Record, Results
from benchmarks.peers.sites import MariadbSite, MysqlSite
from benchmarks.peers.targets import table

JOBS = 40


@pytest.fixture(params=["mysql", "real_mysql"])
def site(request: pytest.FixtureRequest) -> MariadbSite:
    """A site on a server of either kind."""
    kind = {"mysql": MariadbSite, "real_mysql": MysqlSite}[request.param]
    return kind(request.getfixturevalue(request.param))


@pytest.mark.repeats("raw", "by-hand", decided="tests/integration/benchmarks/test_peers.py")
@pytest.mark.repeats("real_mysql", decided="tests/integration/benchmarks/test_peers.py")
@pytest.mark.parametrize("name", [*envs.OURS, envs.BY_HAND])
def test_an_adapter(site: MariadbSite, name: str) -> None:
    """All its jobs are enqueued, done and settled, under a held snapshot, too."""
    folder = envs.HERE / name
    own = folder / "adapter_mysql.py"
    peer = Peer(name, [sys.executable, str(own if own.exists() else folder / "adapter.py")], {})
    with site.database() as database:
        peer.set_up(database)
        peer.call_only("enqueue", database, jobs=JOBS)
        site.tidy(database)
        with site.held(database):
            answer = peer.call("drain", database, jobs=JOBS)
    found = record(peer, "drain", "60 B", 1, answer)
    assert found.jobs == JOBS
    assert {"seconds", "cpu", "server_cpu", "wal_bytes"} <= found.figures.keys()


def test_what_is_promised_there() -> None:
    """At least 0.7 of the same SQL; what is not measured is said."""
    results = Results(machine={"database": "mysql"}, peers={"mutirao": {}, "raw": {}})
    for peer, seconds in (("mutirao", 1.25), ("raw", 1.0)):
        figures = {"seconds": seconds}
        results.records.append(
            Record(peer=peer, work="drain", variant="60 B", jobs=100, figures=figures)
        )
    found = table(results)
    assert "| drain | × raw SQL ≥ 0.7 | 0.80 | met |" in found
    assert "| enqueue many, in a transaction | × raw SQL ≥ 0.7 | — | not measured |" in found
