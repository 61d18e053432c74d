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
    "tests/faults/chaos/test_chaos.py": 20,
    "tests/faults/chaos/test_chaos_broker.py": 37,
    "tests/acceptance/test_demo.py": 20,
    "tests/acceptance/test_documented.py": 600,
    "tests/faults/ordeal/test_ordeal.py": 75,
    "tests/acceptance/test_outbox.py": 24,
    "tests/acceptance/test_periodic_feeds.py": 41,
    "tests/acceptance/test_reindex.py": 20,
    "tests/conformance/test_mariadb.py::TestMariadb": 165,
    "tests/conformance/test_mysql.py::TestMysql": 185,
    "tests/conformance/test_sql_store.py::TestPsycopg": 215,
    "tests/conformance/test_sql_store.py::TestSqlite": 80,
    "tests/integration/carrying/test_hostile_headers.py": 27,
    "tests/integration/carrying/test_schedules.py": 31,
    "tests/integration/carrying/test_suspects.py": 32,
    "tests/integration/django_data/test_django_data.py": 22,
    "tests/integration/enqueue/test_streaming.py": 20,
    "tests/integration/graphs/test_race.py": 14,
    "tests/integration/integrations/test_django_backend.py": 30,
    "tests/integration/migrations/test_old_databases.py": 20,
    "tests/integration/roles/test_roles.py": 59,
    "tests/integration/roles/test_settings.py": 60,
    "tests/integration/topics/test_crashes.py": 20,
    "tests/integration/troubles/test_locks.py": 19,
    "tests/integration/troubles/test_silence.py": 40,
    "tests/integration/web/test_browser.py": 33,
    "tests/integration/worker/test_idle_fleet.py": 20,
    "tests/integration/worker/test_processes.py": 36,
    "tests/integration/worker/test_shutdown.py": 40,
    "tests/faults/simulation/test_fleets.py": 30,
    "tests/unit/test_readme.py": 64,
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
