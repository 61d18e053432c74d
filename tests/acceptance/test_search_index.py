"""The example of a search index keeps its promise, and would say if it did not."""

from __future__ import annotations

import pytest

from tests.support.examples import demo_module, run_demo


@pytest.mark.repeats(decided="conformance/src/mutirao_conformance/uniqueness.py")
def test_every_document_is_indexed(database_url: str) -> None:
    """As it is now, never twice at once, though a worker is killed while it indexes."""
    said = run_demo("search_index", database_url, timeout=250)
    assert "is killed with SIGKILL" in said
    assert "never twice at once" in said


@pytest.mark.parametrize(
    ("runs", "early", "expected"),
    [
        ([(1, 5, 0.0, 1.0), (1, 9, 1.0, 2.0)], 1, []),
        ([(1, 9, 0.0, 1.0), (1, 9, 0.9, 2.0)], 1, ["1 documents were indexed twice at once"]),
        ([(1, 8, 0.0, 1.0)], 1, ["1 documents are not indexed as they are now, the first is 1"]),
        ([(1, n, n, n + 0.5) for n in range(10)], 1, ["10 runs for 9 edits are no saving"]),
        ([(1, 9, 0.0, 1.0)], 0, ["nothing was indexed before the last edit"]),
    ],
)
def test_a_broken_promise_is_told(
    runs: list[tuple[int, int, float, float]], early: int, expected: list[str]
) -> None:
    """The verdict sees stale documents, runs at the same time, and runs that were not saved."""
    demo = demo_module("search_index")
    found = list(demo.flaws({1: 9}, [demo.Run(*run) for run in runs], early))
    assert [each[: len(expected[0])] for each in found] == expected
