"""The example of an outbox keeps its promise, and would say if it did not."""

from __future__ import annotations

import pytest

from tests.support.examples import demo_module, run_demo


@pytest.mark.repeats(decided="conformance/src/mutirao_conformance/supersede.py")
def test_inboxes_have_the_last_state(database_url: str) -> None:
    """Of 41 activities few are sent, though an inbox is down and a worker is killed."""
    said = run_demo("outbox", database_url, timeout=300)
    assert "is killed with SIGKILL" in said
    assert "Both have the last one" in said


def good(inbox: str) -> list[tuple[str, str, str, str, int]]:
    """Return what an inbox takes when all is well."""
    return [
        (inbox, "Create", "note-1", "edit 1019", 202),
        (inbox, "Update", "note-1", "edit 2019", 202),
    ]


GONE = [(1, "410 Gone")]
BOTH = [*good("/ann"), *good("/bob")]


@pytest.mark.parametrize(
    ("got", "most", "dead", "expected"),
    [
        (BOTH, 2, GONE, []),
        ([("/bob", "Create", "note-1", "edit 1", 503), *BOTH], 2, GONE, []),
        (BOTH[:-1], 2, GONE, ["/bob begins with"]),
        ([*BOTH[:2], BOTH[3], BOTH[2]], 2, GONE, ["/bob begins with", "/bob was told"]),
        ([*BOTH, BOTH[3]], 2, GONE, ["/bob was told 'edit 2019' 2 times"]),
        ([*BOTH[:2], *[BOTH[2]] * 20, BOTH[3]], 2, GONE, ["/bob took 21 activities"]),
        ([*BOTH, ("/ann", "Delete", "note-2", "", 202)], 2, GONE, ["/ann", "/ann", "somebody"]),
        (BOTH, 3, GONE, ["an inbox had 3 requests at once"]),
        (BOTH, 2, [(3, "410 Gone")], ["dead are [(3, '410 Gone')]"]),
    ],
)
def test_a_broken_promise_is_told(
    got: list[tuple[str, str, str, str, int]],
    most: int,
    dead: list[tuple[int, str]],
    expected: list[str],
) -> None:
    """The verdict sees what is lost, repeated, out of order, or sent for nothing."""
    demo = demo_module("outbox")
    found = list(demo.flaws([demo.Got(*each) for each in got], most, dead, "edit 2019"))
    assert [each.startswith(start) for each, start in zip(found, expected, strict=True)] == [
        True for _ in expected
    ]
