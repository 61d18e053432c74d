"""A private Prometheus, stopped by its starter, and promtool. Debian's package has both."""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.binaries import find_prometheus
from tests.support.servers import free_port
from tests.support.waiting import wait_until


class PrometheusServer:
    """A running server."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **query: str) -> Any:
        """Ask its API; return the data of the answer."""
        asked = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(asked, timeout=60) as reply:  # noqa: S310 (our own)
            told = json.load(reply)
        assert told["status"] == "success", told
        return told["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression now: each has `metric` and `value`."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def number(self, expression: str) -> float:
        """Return the one value of an expression; 0 if there is no series."""
        found = self.query(expression)
        assert len(found) < 2, found
        return float(found[0]["value"][1]) if found else 0.0

    def scrapes(self) -> bool:
        """Return whether all that it scrapes has been scraped, and answers."""
        targets = self.ask("targets")["activeTargets"]
        return bool(targets) and all(each["health"] == "up" for each in targets)


@contextmanager
def prometheus(
    targets: Mapping[str, Sequence[str]], every: str = "1s"
) -> Iterator[PrometheusServer]:
    """Run a server that scrapes these addresses, by job; give it once it answers."""
    program, port = find_prometheus(), free_port()
    with tempfile.TemporaryDirectory(prefix="mutirao-prometheus-") as name:
        home = Path(name)
        jobs = [
            {"job_name": job, "static_configs": [{"targets": list(each)}]}
            for job, each in targets.items()
        ]
        scraping = {"scrape_interval": every, "scrape_timeout": every}
        # JSON is YAML as well.
        (home / "prometheus.yml").write_text(
            json.dumps({"global": scraping, "scrape_configs": jobs})
        )
        log = (home / "log").open("wb")
        process = subprocess.Popen(
            [
                program, f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data",
                f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
            ],
            stdin=subprocess.DEVNULL, stderr=log, start_new_session=True,
        )  # fmt: skip
        log.close()
        server = PrometheusServer(port)
        try:
            wait_until(lambda: _is_ready(server, process, home / "log"))
            yield server
        finally:
            process.terminate()
            process.wait()


def _is_ready(server: PrometheusServer, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()
    try:
        with urllib.request.urlopen(f"{server.url}/-/ready", timeout=10) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except OSError:
        return False


def promtool(*arguments: str | Path, given: str = "") -> str:
    """Run promtool, which must find nothing; return what it says."""
    program = find_prometheus().with_name("promtool")
    ran = subprocess.run(
        [program, *arguments], input=given, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    return ran.stdout
