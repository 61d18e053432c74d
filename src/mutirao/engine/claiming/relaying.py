"""What a producer tells the relay of its worker, and what stands there where there is none."""

from typing import Protocol


class Relaying(Protocol):
    """What a relay is told; see `mutirao.engine.brokers.relay`."""

    def wake(self) -> None:
        """Look for due jobs now."""

    def expect(self, due_at: float) -> None:
        """Look when a job is due, in monotonic seconds."""


class _NoRelay:
    def wake(self) -> None:
        """Do nothing."""

    def expect(self, due_at: float) -> None:
        """Do nothing."""


NO_RELAY: Relaying = _NoRelay()
