"""Subscribers that fail, in a thread and in a process, which imports this module."""

from mutirao import Retry, Tasks

failing = Tasks()
POLICY = Retry.fixed(9, interval=3_600, never=(KeyError,))


@failing.subscriber("fail", tags=["told"], retry=POLICY)
def fail(event: dict[str, str]) -> None:
    """Fail."""
    raise {"key": KeyError}.get(event["raises"], ValueError)


@failing.subscriber("fail_apart", tags=["told"], retry=POLICY, process=True)
def fail_apart(event: dict[str, str]) -> None:
    """Fail."""
    raise {"key": KeyError}.get(event["raises"], ValueError)
