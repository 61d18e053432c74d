"""The promise, shown: every committed order has exactly one receipt, whatever happens.

    python examples/shop/demo.py [--web] [DATABASE-URL]

Opens the shop of `shop.py`, starts three workers, kills one of them with SIGKILL half-way, and then
counts what is in the tables. Exit status 0: the promise held. With `--web` the dashboard is open
meanwhile, and until Ctrl-C.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from sqlalchemy import URL, Connection, NullPool, create_engine, text

from display import progress, table
from shop import Base
from tally import Tally, read

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from house import database

ORDERS, WORKERS = int(os.environ.get("SHOP_ORDERS", "200")), 3
HEARTBEAT, EXPIRY = 0.5, 2.0  # seconds; 5 and 15 unless asked otherwise
DEADLINE = 200.0  # seconds, for a busy machine; it takes a third of a minute

MUTIRAO = (sys.executable, "-m", "mutirao")
MIGRATE = (*MUTIRAO, "migrate", "shop:app")
OPEN_SHOP = (sys.executable, "shop.py", str(ORDERS))
WEB = (*MUTIRAO, "web", "shop:app")
WORK = (
    *(*MUTIRAO, "worker", "shop:app", "--concurrency", "5", "--log-level", "warning"),
    *("--heartbeat", str(HEARTBEAT), "--expiry", str(EXPIRY)),
)

Process = subprocess.Popen[bytes]
console = Console(highlight=False, soft_wrap=True)


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    web = "--web" in arguments
    given = [each for each in arguments if each != "--web"]
    with TemporaryDirectory(prefix="mutirao-demo-") as name, database(given, "shop") as url:
        console.print(
            f"Workers beat every {HEARTBEAT} s and are taken for gone after {EXPIRY} s, to be quick"
            " (5 s and 15 s by default).\n"
        )
        log = Path(name, "log")
        with create_engine(url, poolclass=NullPool).connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            Base.metadata.create_all(connection)
            with started(url, log, web=web) as (shop, *workers):
                tally = watch(connection, shop, workers[:WORKERS])
                status = told(tally, log, closed=shop.wait() == 0)
                if web:
                    stay(workers[WORKERS])
    return status


def told(tally: Tally, log: Path, *, closed: bool) -> int:
    """Print what is in the tables, and whether the promise held; return the exit status."""
    console.print()
    console.print(table(tally, ORDERS))
    broken = tally.broken() + ([] if closed else ["the shop did not take all orders"])
    if broken:
        console.print(f"What the workers said:\n{log.read_text()[-5_000:]}", markup=False)
    return verdict(tally, broken)


def stay(dashboard: Process) -> None:
    """Keep the dashboard and the workers until Ctrl-C: the dead job can be redriven there."""
    console.print("\nThe dashboard and two workers stay until Ctrl-C.")
    with suppress(KeyboardInterrupt):
        dashboard.wait()


@contextmanager
def started(url: URL, log: Path, *, web: bool) -> Iterator[list[Process]]:
    """Migrate, then lend the processes of shop, workers and dashboard; stop them at the end."""
    environment = os.environ | {"SHOP_DATABASE": url.render_as_string(hide_password=False)}
    here = Path(__file__).parent
    with log.open("wb") as output:
        subprocess.run(MIGRATE, check=True, cwd=here, env=environment, stdout=output)
        processes = [
            subprocess.Popen(command, cwd=here, env=environment, stderr=output)
            for command in (OPEN_SHOP, *[WORK] * WORKERS)
        ]
        if web:  # it says where it is
            processes.append(subprocess.Popen(WEB, cwd=here, env=environment))
        try:
            yield processes
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


def watch(connection: Connection, shop: Process, workers: list[Process]) -> Tally:
    """Show the progress until no job is left, and kill a worker half-way."""
    deadline, killed = time.monotonic() + DEADLINE, False
    with progress(console, ORDERS) as show:
        while True:
            closed = shop.poll() is not None  # asked first: the tally then has its last order
            tally = read(connection)
            show(tally)
            if not killed and len(tally.receipts) > ORDERS / 2:
                killed = True
                kill_the_busiest(connection, workers)
            if (closed and not tally.unfinished) or time.monotonic() > deadline:
                return tally
            time.sleep(0.1)


def kill_the_busiest(connection: Connection, workers: list[Process]) -> None:
    """End a worker as a power cut would: it cannot finish anything, and tells nobody."""
    busiest = text("SELECT pid, running FROM mutirao_workers ORDER BY running DESC LIMIT 1")
    pid, jobs = connection.execute(busiest).one()
    for worker in workers:
        if worker.pid == pid:
            worker.kill()
            console.print(f"Worker {pid} is killed with SIGKILL; it held {jobs} jobs.", style="red")


def verdict(tally: Tally, broken: list[str]) -> int:
    """Say whether the promise held; return the exit status."""
    if broken:
        console.print("The promise did NOT hold:", *broken, sep="\n", style="bold red")
        return 1
    console.print(
        "Every committed order has exactly one receipt and no rolled-back order has one.\n"
        f"(The {len(tally.dead)} whose job died has none, and is listed as dead.)",
        style="bold green",
    )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("Stopped; nothing is left behind.")
