"""The log records of a test that are its own."""

from __future__ import annotations

import logging

import pytest


def ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the records of Mutirão.

    What asyncio reports of a future that nobody awaited comes when that is collected: it may be one
    of an earlier test.
    """
    return [each for each in caplog.records if each.name.partition(".")[0] == "mutirao"]
