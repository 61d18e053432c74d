"""The example of a client with tenants keeps its promise, and would say if it did not."""

from __future__ import annotations

import pytest

from tests.support.examples import demo_module, run_demo


@pytest.mark.repeats(decided="conformance/src/mutirao_conformance/limits.py")
def test_nobody_has_too_many_calls(database_url: str) -> None:
    """Though a worker is killed while it calls; and no place is lost."""
    said = run_demo("tenant_client", database_url, timeout=200)
    assert "is killed with SIGKILL" in said
    assert "never more than 2 at once for one" in said


ONE_EACH = [("globex", 0, 0.0, 1.0), ("initech", 0, 0.0, 1.0)]
TEN = [("acme", n, n * 1.0, n + 1.5) for n in range(10)]


@pytest.mark.parametrize(
    ("calls", "held", "expected"),
    [
        ([*TEN, *ONE_EACH], 0, []),
        ([*TEN, *ONE_EACH], 3, ["3 places are still held or waited for"]),
        ([*TEN[1:], *ONE_EACH], 0, ["acme had 9 of 10 calls"]),
        ([*TEN, ("acme", 1, 1.2, 2.0), *ONE_EACH], 0, ["acme had 3 calls at once"]),
        ([*TEN, *ONE_EACH[1:]], 0, ["2 of 3 tenants had calls"]),
    ],
)
def test_a_broken_promise_is_told(
    calls: list[tuple[str, int, float, float]], held: int, expected: list[str]
) -> None:
    """The verdict sees too many at once, calls that were not made, and places that were lost."""
    demo = demo_module("tenant_client")
    assert list(demo.flaws([demo.Call(*call) for call in calls], held, 1)) == expected
