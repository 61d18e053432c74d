"""Applications as the tests of workers have them."""

from __future__ import annotations

from tests.integration.worker.conftest import (
    app,
    lite_url,
    pg_app,
    pg_url,
    url,
)

__all__ = ["app", "lite_url", "pg_app", "pg_url", "url"]
