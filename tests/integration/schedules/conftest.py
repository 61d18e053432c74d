"""The applications of the tests of workers, each on an empty database."""

from __future__ import annotations

from tests.integration.worker.conftest import (
    app,
    lite_url,
    open_stores,
    pg_app,
    pg_url,
    url,
)

__all__ = ["app", "lite_url", "open_stores", "pg_app", "pg_url", "url"]
