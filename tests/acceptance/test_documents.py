"""The example of a document pipeline keeps its promise, and would say if it did not."""

from __future__ import annotations

import pytest

from tests.support.examples import demo_module, run_demo


@pytest.mark.repeats(decided="conformance/src/mutirao_conformance/graphs.py")
def test_every_document_is_published(database_url: str) -> None:
    """Once and whole, though a worker is killed and some pages stop their documents."""
    said = run_demo("documents", database_url, timeout=250)
    assert "is killed with SIGKILL" in said
    assert "4 documents are stopped at stage count" in said
    assert "each once, whole, and after all of its pages" in said


def whole(document: int) -> tuple[int, int, float]:
    """Return a publication as it should be."""
    return document, sum(document + page for page in range(5)), 10.0


@pytest.mark.parametrize(
    ("changes", "stopped", "expected"),
    [
        ({}, 4, []),
        ({3: []}, 4, ["1 documents were never published, the first is 3"]),
        ({5: [whole(5), whole(5)]}, 4, ["1 documents were published twice, the first is 5"]),
        ({5: [(5, 1, 10.0)]}, 4, ["document 5 has 1 words, not 35"]),
        ({5: [(5, 35, 8.0)]}, 4, ["document 5 was published before its pages were counted"]),
        ({}, 0, ["0 documents were stopped by a smudged page, not 4"]),
    ],
)
def test_a_broken_promise_is_told(
    changes: dict[int, list[tuple[int, int, float]]], stopped: int, expected: list[str]
) -> None:
    """The verdict sees what is missing, double, in part, too early, or was not stopped."""
    published = [each for id in range(1, 13) for each in changes.get(id, [whole(id)])]
    flaws = demo_module("documents").flaws
    assert list(flaws(published, dict.fromkeys(range(1, 13), 9.0), stopped)) == expected
