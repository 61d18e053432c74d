"""What the tables say: the shop's own, and Mutirão's views, which any SQL tool can read too."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, text

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from house import decoded

DEAD = "SELECT args FROM mutirao_jobs WHERE task = 'send_receipt' AND state = 'dead'"
JOBS = "SELECT state, sum(jobs) FROM mutirao_queues GROUP BY state"
ATTEMPTS = "SELECT outcome, sum(attempts) FROM mutirao_throughput GROUP BY outcome"


@dataclass(frozen=True)
class Tally:
    """One look at the tables. Orders, receipts and the rest are told by the order's number."""

    orders: set[int]  # those that were committed
    receipts: list[int]
    dead: set[int]  # orders whose job is out of attempts
    complaints: list[int]  # what the handler of dead jobs wrote
    jobs: dict[str, int]  # by state
    attempts: dict[str, int]  # by outcome

    @property
    def unfinished(self) -> int:
        """How many jobs wait or run."""
        return sum(self.jobs.get(state, 0) for state in ("scheduled", "ready", "running"))

    @property
    def repeated(self) -> set[int]:
        """Orders with more than one receipt."""
        return _repeated(self.receipts)

    @property
    def strays(self) -> set[int]:
        """Orders that have a receipt and were rolled back."""
        return set(self.receipts) - self.orders

    def broken(self) -> list[str]:
        """Return what is not as promised; nothing if the promise held."""
        with_receipt = set(self.receipts)
        found = {
            "jobs that did not finish": set(range(self.unfinished)),
            "orders with more than one receipt": self.repeated,
            "orders that were rolled back and have a receipt": self.strays,
            "orders with neither a receipt nor a dead job": self.orders - with_receipt - self.dead,
            "orders with both a receipt and a dead job": with_receipt & self.dead,
            "dead jobs whose handler did not run exactly once": (
                self.dead ^ set(self.complaints) | _repeated(self.complaints)
            ),
        }
        return [f"{len(each)} {what}: {sorted(each)}" for what, each in found.items() if each]


def read(connection: Connection) -> Tally:
    """Look at the tables."""

    def column(query: str) -> list[int]:
        return list(connection.execute(text(query)).scalars())

    def counts(query: str) -> dict[str, int]:
        return {name: int(count) for name, count in connection.execute(text(query))}

    jobs = counts(JOBS)  # asked first: the other tables then tell what came of those that ended
    dead = connection.execute(text(DEAD)).scalars()
    return Tally(
        orders=set(column("SELECT number FROM shop_order")),
        receipts=column("SELECT order_number FROM shop_receipt"),
        dead={decoded(args)["order_number"] for args in dead},
        complaints=column("SELECT order_number FROM shop_complaint"),
        jobs=jobs,
        attempts=counts(ATTEMPTS),
    )


def _repeated(numbers: Iterable[int]) -> set[int]:
    return {number for number, times in Counter(numbers).items() if times > 1}
