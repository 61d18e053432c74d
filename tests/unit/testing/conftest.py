"""The shop, without a database and on a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mutirao import Mutirao
from tests.unit.testing.shop import Shop


@pytest.fixture
def shop() -> Shop:
    """A shop whose database does not exist: whoever touches it fails."""
    return Shop(Mutirao("sqlite:////nowhere/at/all.db"))


@pytest.fixture
def real_shop(migrated_url: str) -> Iterator[Shop]:
    """A shop on a fresh database of each kind."""
    shop = Shop(Mutirao(migrated_url))
    yield shop
    shop.app.close()
