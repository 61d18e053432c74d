"""A pytest plugin: starts the longest tests first, so that no process works alone at the end.

xdist's own order, by the number of tests, puts a file of three tests that take a minute last. What
is not in the table below takes as long as its tests usually do. Which files are in it, the end of
a run says (`slowest`); that a figure is old costs seconds and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

# Seconds that all tests of a class, or else of a file, took: four processes on two cores.
SECONDS = {
    "tests/acceptance/test_benchmarks.py": 98,
    "tests/acceptance/test_chaos.py": 48,
    "tests/acceptance/test_chaos_broker.py": 37,
    "tests/acceptance/test_demo.py": 100,
    "tests/acceptance/test_documented.py": 600,
    "tests/acceptance/test_ordeal.py": 75,
    "tests/acceptance/test_outbox.py": 24,
    "tests/acceptance/test_periodic_feeds.py": 41,
    "tests/acceptance/test_reindex.py": 20,
    "tests/conformance/test_mariadb.py::TestMariadb": 165,
    "tests/conformance/test_mysql.py::TestMysql": 200,
    "tests/conformance/test_sql_store.py::TestPsycopg": 210,
    "tests/conformance/test_sql_store.py::TestSqlite": 110,
    "tests/integration/carrying/test_suspects.py": 47,
    "tests/integration/django_data/test_django_data.py": 30,
    "tests/integration/enqueue/test_streaming.py": 58,
    "tests/integration/graphs/test_race.py": 47,
    "tests/integration/migrations/test_old_databases.py": 63,
    "tests/integration/roles/test_roles.py": 59,
    "tests/integration/roles/test_settings.py": 60,
    "tests/integration/topics/test_crashes.py": 39,
    "tests/integration/troubles/test_silence.py": 75,
    "tests/integration/worker/test_idle_fleet.py": 49,
    "tests/integration/worker/test_shutdown.py": 61,
    "tests/simulation/test_fleets.py": 60,
    "tests/unit/test_readme.py": 227,
}
USUAL = {"unit": 0.02, "conformance": 0.2}  # seconds for a test, by its room
ELSE = 0.5


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process of xdist, put each scope in its place; within it tests keep their order."""
    if hasattr(config, "workerinput"):
        place = places(item.nodeid for item in items)
        items.sort(key=lambda item: place[scope_of(item.nodeid)])


def places(tests: Iterable[str]) -> dict[str, int]:
    """Return the place of each scope of these tests: the longest has the first, 0."""
    scopes = Counter(map(scope_of, tests))
    order = sorted(scopes, key=lambda scope: (-seconds(scope, scopes[scope]), scope))
    return {scope: place for place, scope in enumerate(order)}


def scope_of(test: str) -> str:
    """Return what `--dist loadscope` keeps together: a class, or what a file has besides."""
    return test.rsplit("::", 1)[0]


def seconds(scope: str, tests: int) -> float:
    """Return how long a scope takes: what was seen, or what so many tests usually take."""
    room = scope.split("/")[1] if scope.startswith("tests/") else ""
    return SECONDS.get(scope, tests * USUAL.get(room, ELSE))
