"""Doorbells in messages: several of short jobs together, and back."""

from __future__ import annotations

import pytest

from mutirao.model.brokers.doorbell import Doorbell, doorbells_of, messages_of
from mutirao.model.brokers.message import Message


def bells(*ids: int, task: str = "greet", group: str | None = None) -> list[Doorbell]:
    """Return doorbells of a queue, with another run each."""
    return [Doorbell(id, id % 3, "mail", 0, task, group) for id in ids]


def test_several_travel_together() -> None:
    """Up to so many of a queue and task; what arrives is what was rung."""
    rung = [*bells(1, 2, 3), *bells(4, task="part"), *bells(5)]
    parcels = list(messages_of(rung, 3))
    assert [[bell.id for bell in some] for _, some in parcels] == [[1, 2, 3], [5], [4]]
    assert [doorbells_of(message) for message, _ in parcels] == [list(some) for _, some in parcels]
    assert [message.id for message, _ in parcels[1:]] == ["5.2", "4.1"]


def test_those_of_a_group_travel_alone() -> None:
    """A broker keeps the order of messages, and gives one to a consumer at a time."""
    parcels = list(messages_of(bells(1, 2, group="ana"), 50))
    assert [message.ordering_key for message, _ in parcels] == ["ana", "ana"]


def test_the_same_are_the_same_message() -> None:
    """However often they are published; others are another message."""
    [first], [again], [other] = (
        [message.id for message, _ in messages_of(bells(*ids), 9)]
        for ids in ((1, 2), (1, 2), (1, 2, 3))
    )
    assert first == again != other


@pytest.mark.parametrize(
    "args",
    ["[]", '{"jobs": []}', '{"jobs": [[1]]}', '{"jobs": 1}', "{", 60_000 * "[",
     '{"jobs": [[9223372036854775808, 1]]}', '{"jobs": [[1, 9223372036854775808]]}',
     '{"jobs": [[-1, 1]]}'],
)  # fmt: skip
def test_what_is_no_doorbell(args: str) -> None:
    """It is told, whatever it is."""
    with pytest.raises(ValueError, match=r"doorbell|Expecting"):
        doorbells_of(Message(id="x", task="greet", args=args))
