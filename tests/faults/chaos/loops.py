"""`python -m tests.faults.chaos.loops`: exit status 0 if each of twenty loops stayed one.

The demonstration of `examples/periodic_feeds`, whose broker, besides, is killed with SIGKILL and
started again, and cut off from everybody, in turns: at each kill of a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle

from tests.faults.chaos import app
from tests.faults.kit.broker import Broker, broker_on
from tests.faults.kit.program import end_with, parser_of, verdict
from tests.support.examples import demo_module
from tests.support.rabbitmq import RabbitServer


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long it takes.

    Parameters:
        seconds: of work, and a little more.
        cut_for: seconds for which nobody reaches the broker, each time.
    """

    seconds: float = 90.0
    cut_for: float = 10.0


def main() -> int:
    """Read the options, and run."""
    plan = Plan(**vars(parser_of("tests.faults.chaos.loops", Plan).parse_args()))
    with RabbitServer() as server:
        return verdict([], run(server, plan.seconds, plan.cut_for))


def run(server: RabbitServer, seconds: float, cut_for: float) -> list[str]:
    """Show it on a node; return which promises were broken."""
    with broker_on(server, app.PREFIX, app.QUEUES) as broker:
        troubles = cycle(troubles_of(broker, cut_for))
        flaws: list[str] = demo_module("periodic_feeds").show(
            broker.url, seconds, lambda: next(troubles)()
        )
    return flaws


def troubles_of(broker: Broker, cut_for: float) -> Iterator[Callable[[], None]]:
    """Yield what befalls the broker, and is told."""

    def crash() -> None:
        print("the broker is killed with SIGKILL, and started again", flush=True)
        broker.crash()

    def cut() -> None:
        print(f"nobody reaches the broker for {cut_for:g} s", flush=True)
        broker.cut(cut_for)

    yield from (cut, crash)


if __name__ == "__main__":
    end_with(main)
