"""Settings that do not work together are refused with what to give."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from mutirao import Mutirao, OutcomeKind
from mutirao.engine.settings import WorkerSettings, WorkerTerms
from mutirao.errors import ConfigurationError
from mutirao.model.webhooks.webhook_attempts import WebhookSettings

SENDS = WebhookSettings()


def test_defaults() -> None:
    """A rescue comes within the expiry of the last beat; two beats may fail before."""
    settings = WorkerSettings()
    assert settings.expiry == 15.0
    assert settings.lifetime + settings.rescue_every <= settings.expiry
    assert settings.lifetime > 2 * settings.heartbeat
    assert settings.retention == {
        OutcomeKind.SUCCEEDED: timedelta(days=7),
        OutcomeKind.CANCELLED: timedelta(days=7),
        OutcomeKind.DEAD: timedelta(days=90),
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"concurrency": 0}, "concurrency is 0; give 1 or more"),
        ({"batch": 0}, "batch is 0; give 1 or more"),
        ({"grace": -1}, "grace is -1; give 0 or more"),
        ({"poll": 0}, "poll is 0 seconds; give more than 0"),
        ({"heartbeat": 0}, "heartbeat is 0 seconds; give more than 0"),
        ({"heartbeat": 5, "expiry": 9}, "expiry is 9 s .* at least twice the heartbeat"),
        ({"queues": ("mail", "")}, "an empty queue name"),
        ({"queues": ()}, "no queue is given; name some, or leave them out to serve all"),
        ({"exclude_queues": "mail"}, r"exclude_queues are 'mail'; give a list"),
        ({"exclude_queues": ("",)}, "an empty queue name"),
        ({"exclude_queues": ("a", "caf\udce9")}, r"queue name 'caf\\udce9' has half a character"),
        ({"queues": ("a\0",)}, "the queue name .* has a NUL byte"),
        ({"queues": ("a" * 10_000,)}, "the queue name has 10000 characters; give 1 to"),
        ({"tasks": ("\ud800",)}, "the task name .* has half a character"),
        ({"queues": ("a",), "exclude_queues": ("b",)}, "give one of these settings"),
        ({"tasks": ()}, "no task is given"),
        ({"tasks": ("a", "")}, "an empty task name"),
        ({"queues": "mail"}, r"queues are 'mail'; give a list, such as \['mail'\]"),
        ({"prune_batch": 0}, "prune_batch is 0; give 1 or more"),
        ({"keep_hours": 7}, "keep_hours is 7; give a timedelta"),
        ({"keep_inbox": 7}, "keep_inbox is 7; give a timedelta"),
        ({"keep_said": 7}, "keep_said is 7; give a timedelta"),
        (
            {"webhooks": SENDS, "queues": ("mail",)},
            "jobs of the queue 'webhooks', but .* leave them",
        ),
        ({"webhooks": SENDS, "exclude_queues": ("webhooks",)}, "leave them out"),
        ({"webhooks": SENDS, "tasks": ("send",)}, "leave them out"),
        ({"prefetch": -1}, "prefetch is -1; give 0 or more"),
        ({"linger": -1}, "linger is -1; give 0 or more"),
    ],
)
def test_refusals(given: dict[str, Any], words: str) -> None:
    """Where the worker is asked for, before it starts."""
    with pytest.raises(ConfigurationError, match=words):
        Mutirao("sqlite:///never-opened.db").worker(**given)


def test_an_unknown_setting() -> None:
    """Is the TypeError of any unknown argument."""
    with pytest.raises(TypeError, match="concurency"):
        Mutirao("sqlite:///never-opened.db").worker(concurency=3)  # type: ignore[call-arg]


def test_every_setting_may_be_given() -> None:
    """A type checker knows those that there are, and no others."""
    assert {*WorkerTerms.__annotations__} == {field.name for field in fields(WorkerSettings)}
