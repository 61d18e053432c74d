"""The promise, shown: what Prometheus counts is what the database says, to the job.

    python examples/observed/demo.py [DATABASE-URL]

Three workers charge the orders of a producer; some are refused, and tried again until they are
dead. A Prometheus (Debian's package has one) scrapes the workers, and one more program that tells
what the database holds. At the end both are asked how many attempts ended, and how. Exit status 0:
they agree.
"""

import json
import shutil
import socket
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

sys.path.append(str(Path(__file__).parents[1] / "shared"))
from house import House, opened, until

WORKERS, ORDERS = 3, 300
MUTIRAO = (sys.executable, "-m", "mutirao")
ATTEMPTS = "SELECT queue, task, outcome, count(*) FROM mutirao_attempts GROUP BY 1, 2, 3"
UNFINISHED = "SELECT count(*) FROM mutirao_live"
COUNTED = "sum by (queue, task, outcome) (mutirao_attempts_total) > 0"
READY = 'sum(mutirao_jobs{state="ready"})'

Ended = Counter[tuple[str, str, str]]


class Prometheus:
    """A Prometheus that scrapes some ports, by job."""

    def __init__(
        self, house: House, program: str, home: Path, port: int, jobs: dict[str, list[int]]
    ) -> None:
        self._port = port
        scraping = [
            {
                "job_name": job,
                "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}],
            }
            for job, ports in jobs.items()
        ]
        (home / "prometheus.yml").write_text(  # JSON is YAML as well
            json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": scraping})
        )
        house.start(
            program, f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data",
            f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=error",
        )  # fmt: skip

    def _ask(self, path: str, **query: str) -> Any:
        asked = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urlencode(query)}"
        try:
            with urlopen(asked, timeout=10) as reply:
                return json.load(reply)["data"]
        except OSError:
            return {}  # it has not begun yet

    def scrapes(self) -> bool:
        """Return whether each port was scraped."""
        targets = self._ask("targets").get("activeTargets", [])
        return bool(targets) and all(each["health"] == "up" for each in targets)

    def query(self, expression: str) -> list[Any]:
        """Return the series of an expression."""
        found: list[Any] = self._ask("query", query=expression).get("result", [])
        return found

    def ended(self) -> Ended:
        """Return how many attempts have ended, by queue, task and outcome."""
        names = ("queue", "task", "outcome")
        return Counter({
            tuple(each["metric"][name] for name in names): int(float(each["value"][1]))
            for each in self.query(COUNTED)
        })  # fmt: skip


def free_ports(number: int) -> int:
    """Return the first of so many ports in a row that nobody has."""
    for first in range(29_000, 30_000, number):
        try:
            for port in range(first, first + number):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    sys.exit("There are no free ports.")


def in_sql(house: House) -> Ended:
    """Return the same from the database."""
    return Counter({(queue, task, outcome): number
                    for queue, task, outcome, number in house.ask(ATTEMPTS)})  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run the demonstration; return the exit status."""
    program = shutil.which("prometheus")
    if program is None:
        sys.exit("There is no Prometheus here: apt-get install prometheus")
    if find_spec("prometheus_client") is None:  # without it workers end, and all would wait
        sys.exit("Metrics need prometheus-client: pip install 'mutirao[prometheus]'")
    with (
        TemporaryDirectory(prefix="mutirao-observed-") as home,
        opened("observed", Path(__file__).parent, arguments) as house,
    ):
        house.run(*MUTIRAO, "migrate", "observed:app")
        return play(house, program, Path(home))


def play(house: House, program: str, home: Path) -> int:
    """Let the producer produce, and compare."""
    first = free_ports(WORKERS + 2)
    ports, store, own = [*range(first, first + WORKERS)], first + WORKERS, first + WORKERS + 1
    quiet = ("--log-level", "error")
    house.start(
        *(*MUTIRAO, "worker", "observed:app", "--processes", str(WORKERS)),
        *("--metrics-port", str(first), *quiet),
    )
    house.start(*MUTIRAO, "metrics", "observed:app", "--port", str(store), *quiet)
    watching = Prometheus(house, program, home, own, {"workers": ports, "jobs": [store]})
    until(watching.scrapes, "Prometheus did not scrape all of them")
    print(f"Prometheus scrapes {WORKERS} workers, and who tells what the database holds.")
    house.run(sys.executable, "observed.py", str(ORDERS))
    print(f"{ORDERS} orders.")
    until(lambda: house.ask(UNFINISHED) == [(0,)], "some jobs were never finished")
    said = in_sql(house)
    until(lambda: watching.ended() == said, f"Prometheus did not count {dict(said)}")
    for (queue, task, outcome), number in sorted(said.items()):
        print(f"{number:>5} {queue}/{task} {outcome}")
    ready = until(lambda: watching.query(READY), "nobody told what the database holds")
    print(f"Ready jobs, as Prometheus saw them last: {ready[0]['value'][1]}.")
    print(f"Prometheus and SQL agree on {said.total()} attempts.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
