"""The suites themselves: nothing of them hides behind anything else."""

from __future__ import annotations

from collections import Counter

import pytest

from mutirao.testing.conformance import NotifierContract, StoreContract


@pytest.mark.parametrize("contract", [StoreContract, NotifierContract])
def test_no_test_hides_another(contract: type) -> None:
    """Two topics with a test of the same name would leave one of them unrun."""
    names = Counter(
        name for part in contract.__mro__ for name in vars(part) if name.startswith("test_")
    )
    assert len(names) > 8
    assert [name for name, times in names.items() if times > 1] == []
