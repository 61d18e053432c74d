"""A real Prometheus scrapes three workers and the store, and agrees with SQL to the job."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mutirao.telemetry.grafana.prometheus_board import BOARD
from mutirao.telemetry.grafana.writing import documents
from mutirao.telemetry.prometheus import worker_metrics
from mutirao.telemetry.prometheus.families import Named
from mutirao.telemetry.prometheus.store_metrics import StoreMetrics
from tests.integration.telemetry.kit import asked
from tests.integration.telemetry.watching import (
    PROGRAM,
    add_endpoint,
    idle,
    in_sql,
    watched,
)
from tests.support.prometheus import PrometheusServer, prometheus, promtool
from tests.support.servers import free_port
from tests.support.waiting import until

ALERTS = Path(__file__).with_name("alerts_test.yml")


@contextmanager
def running(url: str, *command: str) -> Iterator[None]:
    """Run a command of `mutirao` beside the block; it ends well at SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mutirao", *command],
        env={**os.environ, "WATCHED_DATABASE": url},
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(60)
    assert status == 0


def of_prometheus(server: PrometheusServer) -> Counter[tuple[str, str, str]]:
    """Return how many attempts have ended, by queue, task and outcome."""
    found = server.query("sum by (queue, task, outcome) (mutirao_attempts_total) > 0")
    return Counter({
        (each["metric"]["queue"], each["metric"]["task"], each["metric"]["outcome"]):
            int(float(each["value"][1]))
        for each in found
    })  # fmt: skip


def shown(expression: str) -> str:
    """Return an expression as Grafana asks it, for all values of its variables."""
    expression = expression.replace("$__rate_interval", "30s").replace("$__range", "10m")
    for name in ("job", "queue", "task"):
        expression = expression.replace(f'"${name}"', '".+"')
    assert "$" not in expression, expression
    return expression


@pytest.mark.repeats(decided="tests/integration/telemetry/test_worker_port.py")
async def test_three_workers_under_load(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each expression of the dashboard returns series, and the numbers are those of SQL."""
    program, port, store = watched(pg_url, monkeypatch), free_port(), free_port()
    workers = [f"127.0.0.1:{port + place}" for place in range(3)]
    own = ["--metrics-port", str(port), "--processes", "3", "--log-level", "warning"]
    await add_endpoint(program)
    with (
        running(pg_url, "metrics", f"{PROGRAM}:app", "--port", str(store)),
        running(pg_url, "worker", f"{PROGRAM}:app", *own),
    ):
        await until(lambda: all(map(answers, workers)))
        # From now on, so that what the store holds is read with the schedules of the workers in it.
        with prometheus({"workers": workers, "store": [f"127.0.0.1:{store}"]}) as server:
            await until(server.scrapes)  # so that the first jobs are an increase
            for _ in range(3):
                await program.fill(100)
                await idle(program)
            by_sql = in_sql(pg_url)
            await until(lambda: of_prometheus(server) == by_sql)
            assert sum(by_sql.values()) > 600
            assert by_sql["reports", "report", "dead"] == 3 * 34
            missing = [each.text for each in BOARD.queries() if not returns(server, each.text)]
            assert missing == []
            for address in (workers[0], f"127.0.0.1:{store}"):
                told = asked(f"http://{address}/metrics").text
                assert promtool("check", "metrics", given=told) == ""
    await program.app.aclose()


def answers(address: str) -> bool:
    """Return whether a worker is there, and ready."""
    try:
        return asked(f"http://{address}/readyz").status == 200
    except OSError:
        return False


def returns(server: PrometheusServer, expression: str) -> bool:
    """Return whether an expression has a series, with a number."""
    found = server.query(shown(expression))
    return any(not math.isnan(float(each["value"][1])) for each in found)


def test_alerts(tmp_path: Path) -> None:
    """Each of them fires where it has to, and nowhere else; as promtool says."""
    rules = tmp_path / "mutirao-alerts.yml"
    rules.write_text(documents()[rules.name])
    (tmp_path / ALERTS.name).write_text(ALERTS.read_text())
    assert "SUCCESS" in promtool("test", "rules", tmp_path / ALERTS.name)
    names = set(re.findall(r"- alert: (\w+)", rules.read_text()))
    tested = set(re.findall(r"alertname: (\w+)", ALERTS.read_text()))
    assert names == tested


async def test_alerts_ask_for_what_there_is(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each metric in the rules is one that a worker or the store tells."""
    program = watched(pg_url, monkeypatch)
    told = (await StoreMetrics(program.app.store).scraped()).body.decode()
    worker = {each.name for each in vars(worker_metrics).values() if isinstance(each, Named)}
    known = worker | {f"{name}_total" for name in worker} | set(re.findall(r"# TYPE (\w+)", told))
    asked_for = set(re.findall(r"\bmutirao_\w+", documents()["mutirao-alerts.yml"]))
    assert asked_for <= known
    await program.app.aclose()
