"""The suites themselves: nothing of them hides behind anything else."""

from __future__ import annotations

from collections import defaultdict

import pytest

from mutirao_conformance import NotifierContract, StoreContract


@pytest.mark.parametrize("contract", [StoreContract, NotifierContract])
def test_no_test_hides_another(contract: type) -> None:
    """Two topics with a test of the same name would leave one of them unrun."""
    found = defaultdict(set)
    for part in contract.__mro__:
        for name, test in vars(part).items():
            if name.startswith("test_"):
                found[name].add(test)
    assert len(found) > 8
    assert [name for name, tests in found.items() if len(tests) > 1] == []
