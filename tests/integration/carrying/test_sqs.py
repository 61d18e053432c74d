"""A worker on queues of SQS, with its faults."""

from __future__ import annotations

import logging

import pytest

from mutirao import Mutirao
from mutirao.transports.sqs import SQS
from tests.support.sqs_faults import FakeSqs
from tests.support.waiting import until


@pytest.mark.parametrize("code", ["AWS.SimpleQueueService.NonExistentQueue", "AccessDenied"])
async def test_trouble_of_one_queue(
    code: str, lite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is told once with what to do, others go on, and it goes on once it is mended."""
    broker = FakeSqs()
    sqs = SQS(clients=lambda: (broker, broker), wait=1)
    await sqs.declare(["mail", "video"])
    app = Mutirao(lite_url, transports={"mail": sqs, "video": sqs})
    ran: list[str] = []
    tasks = {
        queue: app.task(queue=queue, name=queue)(lambda queue: ran.append(queue))
        for queue in ("mail", "video")
    }
    broker.refused["video"] = code

    def told() -> list[str]:
        return [each for each in caplog.messages if "cannot consume queue 'video'" in each]

    with caplog.at_level(logging.INFO, "mutirao"):
        async with app.worker(queues=["mail", "video"]) as worker:
            await until(told)
            await tasks["mail"].aenqueue("mail")
            await until(lambda: ran == ["mail"])
            tries = broker.requests["receive_message"]
            await until(lambda: broker.requests["receive_message"] > tries + 3)
            assert worker.health().alive
            broker.refused.clear()
            await tasks["video"].aenqueue("video")
            await until(lambda: ran == ["mail", "video"])
    assert len(told()) == 1
    assert ("transports declare" if "Queue" in code else "policy") in told()[0]
    app.close()
