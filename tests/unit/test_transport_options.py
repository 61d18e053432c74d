"""Options of transports that the environment says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from mutirao.errors import ConfigurationError
from mutirao.transports.rabbitmq import RabbitMQ, RabbitOptions
from mutirao.transports.sqs import SQS
from mutirao.transports.sqs.options import SqsOptions

DOCS = Path(__file__).parents[2] / "docs"
Make = Callable[..., Any]


def test_what_the_program_does_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read when it is needed, never when a transport is made; the program comes first."""
    sqs, rabbit = SQS(wait=3, max_runtime=60), RabbitMQ(prefix="ours")
    for name, value in {
        "SQS_NAME": "shop-{queue}", "SQS_FIFO": "true", "SQS_WAIT": "7", "SQS_VISIBILITY": "40",
        "SQS_MAX_RUNTIME": "90.5", "SQS_TENANT_GROUPS": "0", "SQS_BUCKET": "large",
        "RABBITMQ_URL": "amqp://guest:secret@there/", "RABBITMQ_PREFIX": "theirs",
        "RABBITMQ_MAX_SIZE": "",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"MUTIRAO_{name}", value)
    assert sqs._options == SqsOptions(
        name="shop-{queue}", fifo=True, visibility=40, wait=3, max_runtime=60,
        tenant_groups=False, bucket="large",
    )  # fmt: skip
    assert (sqs.longest_delay, rabbit.name) == (0.0, "amqp://guest@there/")
    assert (rabbit._options.prefix, rabbit._options.max_size) == ("ours", 16 << 20)
    assert SQS()._options.max_runtime == 90.5


@pytest.mark.parametrize(
    ("make", "variable", "value", "message"),
    [
        (SQS, "MUTIRAO_SQS_WAIT", "soon", "MUTIRAO_SQS_WAIT cannot be read: Expected `int`"),
        (SQS, "MUTIRAO_SQS_WAIT", "99", r"wait is 99.*\(options are from MUTIRAO_SQS_WAIT\)"),
        (SQS, "MUTIRAO_SQS_NAME", "steps.fifo", "name is 'steps.fifo'.*give fifo=True"),
        (RabbitMQ, "MUTIRAO_RABBITMQ_URL", "http://me:secret@x/", "must be amqp://"),
        (RabbitMQ, "MUTIRAO_RABBITMQ_PREFIX", "ours", "or MUTIRAO_RABBITMQ_URL"),
        (RabbitMQ, "MUTIRAO_RABBITMQ_MODE", "carried", "RABBITMQ_MODE is none.*the mode too"),
        (SQS, "MUTIRAO_SQS_WIAT", "3", "MUTIRAO_SQS_WIAT is none.*MUTIRAO_SQS_WAIT"),
        (RabbitMQ, "MUTIRAO_RABBITMQ_URL", "amqp://me:secret@x?hartbeat=5", "'hartbeat'.*cafile"),
    ],
)
def test_what_cannot_be_used(
    make: Make, variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told with the variable's name, and without what may be a secret."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=message) as failure:
        assert make().name, make()._options
    assert "secret" not in str(failure.value)


@pytest.mark.parametrize("said", ["hartbeat=5", "heartbeat=often", "timeout=-1", "heartbeat="])
def test_parameters_of_a_url(said: str) -> None:
    """The client would pass over a wrong one, and over a number it cannot read."""
    with pytest.raises(ConfigurationError, match=f"{said.partition('=')[0]}.*give|may have"):
        RabbitMQ(f"amqp://there?cafile=x&{said}")
    assert RabbitMQ("amqps://there/v?heartbeat=5&cafile=x").name == "amqps://there/v"


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (RabbitMQ, {"prefix": 5}, "prefix cannot be used: Expected `str`, got `int`"),
        (RabbitMQ, {"url": b"amqp://me:secret@x/"}, "url cannot be used: Expected `str`"),
        (RabbitMQ, {"delivery_limit": "20"}, "delivery_limit cannot be used"),
        (RabbitMQ, {"max_size": True}, "max_size cannot be used"),
        (RabbitMQ, {"events": "yes"}, "events cannot be used: Expected `bool`"),
        (RabbitMQ, {"queue": 5}, "queue is 5"),
        (RabbitMQ, {"mode": "carry"}, "mode is 'carry'; give one of alone, carried"),
        (SQS, {"name": 5}, "name cannot be used: Expected `str`"),
        (SQS, {"name": ""}, "give the name of a queue"),
        (SQS, {"mode": "carry"}, "mode is 'carry'; give one of alone, carried"),
        (SQS, {"fifo": "yes"}, "fifo cannot be used: Expected `bool`"),
        (SQS, {"wait": 2.5}, "wait cannot be used: Expected `int`"),
        (SQS, {"max_runtime": "1h"}, "max_runtime cannot be used: Expected `float"),
        (SQS, {"max_runtime": 0}, "max_runtime is 0; give seconds, from 1"),
    ],
)
def test_another_type(make: Make, given: dict[str, Any], message: str) -> None:
    """Is told at once, where the program gives it."""
    with pytest.raises(ConfigurationError, match=message) as failure:
        make(**given)
    assert "secret" not in str(failure.value)


async def test_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to set is said, when a queue is first used."""
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(ConfigurationError, match="MUTIRAO_SQS_REGION or AWS_DEFAULT_REGION"):
        await SQS("shop").declare(["mail"])


@pytest.mark.parametrize(("page", "options"), [("sqs", SqsOptions), ("rabbitmq", RabbitOptions)])
def test_the_table_of_options_is_complete(page: str, options: type[Any]) -> None:
    """The page of a transport lists each."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    shown = {
        name
        for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert {each.name for each in fields(options)} <= shown | {"url"}
    assert f"MUTIRAO_{page.upper()}_" in text


@pytest.mark.parametrize(
    ("name", "found", "dead"),
    [
        ("ord-{queue}", "ord-steps.fifo", "ord-steps-dead.fifo"),
        ("ord-{queue}.fifo", "ord-steps.fifo", "ord-steps-dead.fifo"),
        ("of-theirs.fifo", "of-theirs.fifo", "of-theirs-dead.fifo"),
    ],
)
def test_names_of_fifo_queues(name: str, found: str, dead: str) -> None:
    """They end in ".fifo", said or not; a queue that is there has its own name."""
    sqs = SQS(name, fifo=True)
    assert (sqs._named("steps"), sqs._named("steps", dead=True)) == (found, dead)
