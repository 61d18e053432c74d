"""The promise, shown: all who are told of an order are told, whatever becomes of the others.

    python examples/erp_invoices/demo.py [DATABASE-URL]

Orders are placed, some of which are rolled back. A search index is told of each, one tenant's ERP
takes none of its orders, and a partner's server gets signed webhooks; two workers are killed with
SIGKILL. Then a query in plain SQL says what became of each order, and that is held against what the
index, the handler of dead deliveries and the partner have. Exit status 0: the promise held.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path += [str(Path(__file__).parents[1] / "shared"), str(Path(__file__).parent / "programs")]
from house import House, opened, until
from mutirao.webhooks import new_secret
from partner import Got, Partner, serving

ORDERS = 30
ATTEMPTS = 2  # at the ERP

MUTIRAO = (sys.executable, "-m", "mutirao")
WORK = (
    *(*MUTIRAO, "worker", "erp_invoices:app", "--log-level", "error"),
    *("--heartbeat", "0.5", "--expiry", "2", "--concurrency", "4", "--webhooks"),
    *("--webhook-schemes", "http", "--webhook-networks", "127.0.0.1/32"),
    *("--webhook-ports", "1024-65535"),
)
BUSY_ONES = "SELECT pid FROM mutirao_workers WHERE running > 0"
LIVE = "SELECT count(*) FROM mutirao_jobs WHERE finished_at IS NULL"
# For each order: what became of its deliveries, after how many attempts at the ERP and with which
# answer of the partner, and of which task is the job that is linked to the ERP's dead delivery.
REPORT = """
SELECT o.id, o.tenant, o.cents, count(d.job) AS deliveries,
    max(CASE WHEN d.subscription = 'search' THEN d.state END) AS search,
    max(CASE WHEN d.subscription = 'erp' THEN d.state END) AS erp,
    max(CASE WHEN d.subscription = 'erp' THEN d.attempt END) AS attempts,
    max(CASE WHEN d.subscription = 'erp' THEN d.job END) AS delivery,
    max(h.task) AS handler, max(h.state) AS handled,
    max(CASE WHEN d.subscription = 'endpoint:partner' THEN d.state END) AS partner,
    max((SELECT max(a.status) FROM mutirao_webhook_attempts a WHERE a.job = d.job)) AS status
FROM erp_order o
LEFT JOIN mutirao_deliveries d ON d.publication = o.publication
LEFT JOIN mutirao_jobs h ON h.on_dead_of = d.job
GROUP BY o.id, o.tenant, o.cents ORDER BY o.id
"""
INDEXED = "SELECT order_id FROM erp_index_entry"
MISSING = "SELECT order_id, delivery FROM erp_missing"


class Row(NamedTuple):
    """An order in the report."""

    order: int
    tenant: str
    cents: int
    deliveries: int
    search: str | None
    erp: str | None
    attempts: int | None
    delivery: int | None
    handler: str | None
    handled: str | None
    partner: str | None
    status: int | None


class Found(NamedTuple):
    """What there is at the end: in the report, in the index, of dead ones, and at the partner."""

    report: list[Row]
    indexed: list[int]
    missing: list[tuple[int, int]]
    got: list[Got]
    refused: list[str]


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    secret = new_secret()
    partner = Partner(secret)
    programs = Path(__file__).parent / "programs"
    with serving(partner) as url, opened("erp_invoices", programs, arguments) as house:
        house.run(*MUTIRAO, "migrate", "erp_invoices:app")
        house.run(sys.executable, "erp_invoices.py", "tables", url, secret)
        play(house, partner)
        found = Found(
            [Row(*row) for row in house.ask(REPORT)],
            [row[0] for row in house.ask(INDEXED)],
            [(row[0], row[1]) for row in house.ask(MISSING)],
            partner.got,
            partner.refused,
        )
    if broken := list(flaws(found)):
        print("The promise did NOT hold:", *broken, sep="\n")
        return 1
    print(
        f"{len(found.report)} orders are in the index, each once; {len(found.missing)} that the ERP"
        f" has not taken are written down; the partner has all of them, verified."
    )
    return 0


def play(house: House, partner: Partner) -> None:
    """Place orders, with two accidents."""
    house.start(*WORK)
    house.run(sys.executable, "erp_invoices.py", "place", "1", str(ORDERS // 2))
    until(partner.asked.is_set, "the partner was told nothing")  # and has not answered yet
    first = replace_one(house)
    partner.open.set()
    more = (sys.executable, "erp_invoices.py", "place", str(ORDERS // 2 + 1), str(ORDERS))
    placing = house.start(*more)
    replace_one(house, first)
    if placing.wait() != 0:
        sys.exit("the orders could not be placed")
    until(lambda: house.ask(LIVE) == [(0,)], "some deliveries have not ended")


def replace_one(house: House, before: int | None = None) -> int:
    """Kill a worker that is at work, and start another one; return the pid of the first.

    `before`: one that was killed before, and may look as if it were at work for a while.
    """

    def busy() -> list[int]:
        return [int(row[0]) for row in house.ask(BUSY_ONES) if row[0] != before]

    victim = until(busy, "nobody works")[0]
    print(f"Worker {victim} is at work, and is killed with SIGKILL.")
    house.kill(victim)
    house.start(*WORK)
    return victim


def flaws(found: Found) -> Iterator[str]:
    """Say in which ways the promise was broken."""
    placed = [number for number in range(1, ORDERS + 1) if number % 5]
    if (reported := [row.order for row in found.report]) != placed:
        yield f"placed are {placed}, and in the report are {reported}"
    if Counter(found.indexed) != Counter(placed):
        yield f"in the index are {sorted(found.indexed)}"
    due = [(row.order, row.delivery) for row in found.report if row.tenant == "acme"]
    if Counter(found.missing) != Counter(due):
        yield f"dead deliveries to the ERP are {due}, and written down are {sorted(found.missing)}"
    for row in found.report:
        yield from _flaws_of(row)
    yield from _flaws_at_the_partner(found)


def _flaws_of(row: Row) -> Iterator[str]:
    """Say what is wrong with an order in the report."""
    if (row.search, row.partner, row.status) != ("succeeded", "succeeded", 204):
        yield f"order {row.order}: {row.search} for the index, {row.partner} for the partner"
    handled = (row.deliveries, row.erp, row.handler, row.handled)
    ours = row.tenant == "acme"
    if handled != ((3, "dead", "erp.on_dead", "succeeded") if ours else (2, None, None, None)):
        yield f"order {row.order} of {row.tenant}: deliveries, ERP and its handler are {handled}"
    if ours and (row.attempts or 0) < ATTEMPTS:  # more, if a worker was killed in the middle
        yield f"order {row.order} was tried {row.attempts} times at the ERP"


def _flaws_at_the_partner(found: Found) -> Iterator[str]:
    """Say what is wrong with webhooks: repeated ones have one id, and the same bytes."""
    yield from (f"the partner has refused a webhook: {why}" for why in found.refused)
    bodies: dict[str, bytes] = {}
    for each in found.got:
        if bodies.setdefault(each.id, each.body) != each.body:
            yield f"webhook {each.id} was repeated with other bytes"
    said = {each.id: each.said for each in found.got}.values()
    told = sorted((one["type"], one["data"]["order_id"], one["data"]["cents"]) for one in said)
    if told != [("order.placed", row.order, row.cents) for row in found.report]:
        yield f"the partner was told {told}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
