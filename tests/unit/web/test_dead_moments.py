"""Dead messages name moments, and others may have written them: pages show all the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pamqp.commands import Basic

from mutirao.transports.rabbitmq import wire
from mutirao.transports.sqs.burying import CAUSE, _found
from mutirao.web.showing import iso

MOMENTS = {
    "0001-01-01T00:00:00+14:00": None,
    "9999-12-31T23:59:59-14:00": None,
    "0001-01-01T00:00:00": None,
    "2026-11-27T15:00:00": datetime(2026, 11, 27, 15, tzinfo=UTC),
}


@pytest.mark.parametrize("said", MOMENTS)
def test_of_rabbitmq(said: str) -> None:
    """With what we have written, and with what the broker has."""
    ours: Any = {wire.ERROR_TYPE: "E", wire.FIRST_AT: said, wire.LAST_AT: said}
    theirs: Any = {"x-death": [{"reason": "rejected", "time": datetime.fromisoformat(said)}]}
    for headers in (ours, theirs):
        cause = wire.dead_message(Basic.Properties(headers=headers), b"{}", "mail").cause
        assert (cause.first_at, cause.last_at) == (MOMENTS[said], MOMENTS[said])
        assert cause.last_at is None or iso(cause.last_at) == "2026-11-27T15:00:00.000Z"


@pytest.mark.parametrize("said", MOMENTS)
def test_of_sqs(said: str) -> None:
    """In the attribute with the cause."""
    text = f'{{"error_type": "E", "first_at": "{said}", "last_at": "{said}"}}'
    raw = {"Body": "{}", "MessageId": "m", "ReceiptHandle": "h"}
    cause = _found({**raw, "MessageAttributes": {CAUSE: {"StringValue": text}}}, "mail").dead.cause
    assert (cause.first_at, cause.last_at) == (MOMENTS[said], MOMENTS[said])
