"""How the demonstration looks: bars on a terminal, plain lines where the output is piped."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tally import Tally

Show = Callable[[Tally], None]


@contextmanager
def progress(console: Console, orders: int) -> Iterator[Show]:
    """Lend a function that shows how far it is."""
    if not console.is_terminal:
        yield _lines(console)
        return
    columns = (TextColumn("{task.description:<8}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[note]}")) as bars:
        taken = bars.add_task("orders", total=orders, note="")
        sent = bars.add_task("receipts", total=orders, note="")

        def show(tally: Tally) -> None:
            bars.update(taken, completed=max(tally.orders, default=0))
            bars.update(
                sent,
                completed=len(tally.receipts),
                total=len(tally.orders),
                note=_note(tally),
            )

        yield show


def table(tally: Tally, orders: int) -> Table:
    """Return the final figures."""
    title = "What the tables say"
    table = Table("", "", title=title, title_justify="left", show_header=False, min_width=60)
    table.add_row("Orders committed", str(len(tally.orders)))
    table.add_row("Orders rolled back", str(orders - len(tally.orders)))
    table.add_row("Receipts", str(len(tally.receipts)))
    table.add_section()
    table.add_row("Orders with more than one receipt", str(len(tally.repeated)))
    table.add_row("Rolled-back orders with a receipt", str(len(tally.strays)))
    table.add_row("Orders whose job died, receipt never sent", _numbers(tally.dead))
    table.add_row("… and were handled by on_dead", _numbers(set(tally.complaints)))
    table.add_section()
    table.add_row("Attempts that failed and were retried", str(tally.attempts.get("retried", 0)))
    table.add_row("Attempts lost with the killed worker", str(tally.attempts.get("lost", 0)))
    table.add_row("Jobs not finished", str(tally.unfinished))
    return table


def _lines(console: Console) -> Show:
    """A line a second is enough for a log."""
    start = time.monotonic()
    said = 0

    def show(tally: Tally) -> None:
        nonlocal said
        seconds = int(time.monotonic() - start)
        if seconds > said:
            said = seconds
            done = f"{len(tally.receipts)} receipts for {len(tally.orders)} orders"
            console.print(f"{seconds:3} s: {done}; {_note(tally)}")

    return show


def _note(tally: Tally) -> str:
    waiting = tally.jobs.get("ready", 0) + tally.jobs.get("scheduled", 0)
    retried, lost = tally.attempts.get("retried", 0), tally.attempts.get("lost", 0)
    running, dead = tally.jobs.get("running", 0), tally.jobs.get("dead", 0)
    return f"waiting {waiting}, running {running}, retried {retried}, lost {lost}, dead {dead}"


def _numbers(orders: set[int]) -> str:
    listed = ", ".join(f"№ {number}" for number in sorted(orders)[:3])
    return f"{len(orders)} ({listed})" if orders else "0"
