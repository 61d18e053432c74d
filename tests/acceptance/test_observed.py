"""The example that is observed keeps its promise: Prometheus and SQL agree to the job."""

from __future__ import annotations

import pytest

from tests.support.binaries import find_prometheus
from tests.support.examples import run_demo


@pytest.mark.repeats(decided="tests/integration/telemetry/test_prometheus.py")
def test_they_agree(database_url: str) -> None:
    """On each database; 6 of 300 orders are refused three times."""
    find_prometheus()
    said = run_demo("observed", database_url, timeout=250)
    for line in ("294 mail/send_receipt succeeded", "6 payments/charge dead",
                 "12 payments/charge retried", "294 payments/charge succeeded"):  # fmt: skip
        assert line in said
    assert "Prometheus and SQL agree on 606 attempts." in said
