"""The applications of the tests of workers, closed for plain callers, too."""

from __future__ import annotations

from tests.integration.uniqueness.conftest import (
    app,
    lite_url,
    open_stores,
    pg_url,
    url,
)

__all__ = ["app", "lite_url", "open_stores", "pg_url", "url"]
