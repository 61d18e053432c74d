"""The benchmark of the transport for SQS."""

from __future__ import annotations

from benchmarks.sqs import sqs


async def test_batches_both_ways(moto_url: str) -> None:
    """Three requests for ten messages, and those that find the queue."""
    found = await sqs(endpoint=moto_url, jobs=40, rounds=1)
    assert found.ours[0].requests_of_sending == (4 + 2) / 40
    # Besides tens that came and tens that were deleted: one in pieces, and the last look.
    assert found.ours[0].requests_of_working <= (4 + 4 + 4) / 40
    assert min(found.figures().values(), key=lambda each: each or 0.0)
