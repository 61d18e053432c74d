"""What rules of a database have to say for themselves."""

from mutirao.sql.rules.base import Rules
from mutirao.sql.rules.generic import LockAskWrite


def test_whoever_writes_rules_says_how_they_wake() -> None:
    """Rules that forgot it would leave idle workers asleep; the general ones notify nobody."""
    notifies = {"wake", "wake_all", "notify_ended"}
    assert notifies <= Rules.__abstractmethods__
    assert LockAskWrite.__abstractmethods__ == frozenset()
