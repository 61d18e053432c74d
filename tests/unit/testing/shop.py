"""A small application to test with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mutirao import Dead, DeadJob, Job, Mutirao, Retry, Snooze, Task


@dataclass
class Address:
    """Where a parcel goes."""

    street: str
    number: int = 1


class Broken(Exception):
    """What a handler fails with."""


@dataclass
class Shop:
    """An application, its tasks, and what its handlers did, in order."""

    app: Mutirao
    done: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Register the tasks."""
        app = self.app

        @app.task(queue="mail", retry=Retry.fixed(3, interval=60))
        async def send(order_id: int, note: str = "thanks") -> None:
            self.done.append(("send", order_id, note))

        @app.task
        def resize(path: str, width: int = 800) -> None:
            self.done.append(("resize", path, width))

        @app.task
        def ship(job: Job, to: Address, at: datetime | None = None) -> None:
            self.done.append(("ship", job.id, to, at))

        @app.task(retry=Retry.fixed(3, interval=60))
        def fail(how: str = "error") -> None:
            self.done.append(("fail", how))
            raise {
                "error": Broken("it broke"),
                "dead": Dead("no use"),
                "snooze": Snooze(5),
                "at once": Retry(after=0),
            }[how]

        self.send, self.resize, self.ship, self.fail = send, resize, ship, fail

    def task(self, function: Callable[..., Any], **options: Any) -> Task[..., Any]:
        """Register one more task."""
        decorated: Task[..., Any] = self.app.task(**options)(function)
        return decorated

    def bury(self) -> list[DeadJob]:
        """Handle the deaths of `fail`; return the list they are added to."""
        buried: list[DeadJob] = []

        def told(dead: DeadJob) -> None:
            buried.append(dead)

        self.fail.on_dead(told)
        return buried
