"""`bench web`: each page answers on filled tables, and what it costs is told; nothing is left."""

from __future__ import annotations

import pytest

from benchmarks.pages import PAGES
from tests.integration.benchmarks.conftest import Bench


@pytest.mark.repeats("sqlite", decided="tests/integration/web/test_pages.py")
@pytest.mark.repeats("postgresql", decided="tests/integration/benchmarks/test_pages.py")
@pytest.mark.repeats("mysql", decided="tests/integration/benchmarks/test_pages.py")
def test_each_page_is_measured(every_bench: Bench) -> None:
    """Rows are told where the database knows them; pages that are alike for all are read once."""
    found = every_bench.one("web", "--finished", 3_000, "--live", 1_000, "--asks", 1)
    assert found["pages"].keys() == PAGES.keys()
    for name, (p50, p95, statements, rows, status) in found["pages"].items():
        assert 0 < p50 <= p95, name
        assert (statements > 0, status) == (True, 200), name
        assert (rows is None) == every_bench.url.startswith("sqlite"), name
    many, one = found["tabs"]
    assert many == one > 0
    assert every_bench.ask("SELECT count(*) FROM mutirao_worker") == 0
    assert every_bench.ask("SELECT count(*) FROM mutirao_job") == 0
