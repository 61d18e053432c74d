"""The applications of the tests of workers, closed for plain callers, too."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mutirao import Mutirao
from tests.integration.worker.conftest import lite_url, open_stores, pg_url, url

__all__ = ["lite_url", "open_stores", "pg_url", "url"]


@pytest.fixture
async def app(url: str) -> AsyncIterator[Mutirao]:
    """An application without tasks; on each database."""
    application = Mutirao(url)
    yield application
    await application.aclose()
    application.close()
