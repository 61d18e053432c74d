"""`worker` as people run it: a process that is told to stop by signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from mutirao.model.jobs.job import JobState
from tests.integration.cli.conftest import Shell, make_shop
from tests.support.postgresql import PostgresServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.repeats("postgresql", "mysql", decided="tests/conformance")

DEADLINE = 60.0

Record = dict[str, Any]


class Worker:
    """A running command with its log, one JSON object a line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.log: list[Record] = []
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def wait_for(self, wanted: Callable[[Record], object]) -> Record:
        """Return the next record of the log that is wanted."""
        while True:
            line = self._lines.get(timeout=DEADLINE)
            assert line, f"the log ended with {self.log[-5:]}"
            self.log.append(_record(line))
            if wanted(self.log[-1]):
                return self.log[-1]

    def wait_for_message(self, text: str) -> Record:
        """Return the next record whose message holds `text`."""
        return self.wait_for(lambda record: text in record["message"])

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)

    def close(self) -> None:
        """Kill what is still running, children included, and end reading."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(DEADLINE)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put("")


def _record(line: str) -> Record:
    """Return a line of the log; one that is none, such as the last error, is `raw`."""
    return json.loads(line) if line.startswith("{") else {"raw": line, "message": ""}


@contextmanager
def working(shell: Shell, *options: str, command: str = "worker", **env: str) -> Iterator[Worker]:
    """Run `mutirao worker`, or another command of its kind, in the application's directory."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "mutirao",
            command,
            "shop:app",
            "--log-format",
            "json",
            *options,
        ],
        cwd=shell.directory,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    worker = Worker(process)
    try:
        yield worker
    finally:
        worker.close()


def test_runs_jobs_until_it_is_told_to_stop(shell: Shell) -> None:
    """Jobs are run, each end is logged with its fields, and SIGTERM ends with status 0."""
    shell.ok("enqueue", "shop:app", "send", '{"order_id": 7}')
    with working(shell, "--poll", "0.2") as worker:
        record = worker.wait_for(lambda record: record.get("outcome"))
        assert record["ms"] >= 0
        assert record["event"] == "attempt.ended"
        assert record["worker"] == 1
        assert {name: record[name] for name in ("job", "task", "queue", "attempt", "run")} == {
            "job": 1,
            "task": "send",
            "queue": "mail",
            "attempt": 1,
            "run": 1,
        }
        assert (record["level"], record["logger"], record["outcome"]) == (
            "INFO",
            "mutirao",
            "succeeded",
        )
        assert worker.end() == 0
    assert shell.store(lambda store: store.job(1)).state is JobState.SUCCEEDED
    assert shell.json("stats", "shop:app")["workers"] == []


def test_serves_the_queues_it_was_given(sqlite_shell: Shell) -> None:
    """By option or by variable; the others are left alone."""
    sqlite_shell.ok("enqueue", "shop:app", "send")
    sqlite_shell.ok("enqueue", "shop:app", "send", "--queue", "slow")
    with working(sqlite_shell, "--poll", "0.2", MUTIRAO_WORKER_QUEUES="slow, none") as worker:
        assert worker.wait_for(lambda record: record.get("outcome"))["job"] == 2
        assert worker.end(signal.SIGINT) == 0
    assert sqlite_shell.store(lambda store: store.job(1)).state is JobState.READY


def test_serves_what_it_was_given(sqlite_shell: Shell) -> None:
    """Some tasks, all queues but some; with several processes too, and as `stats` tells."""
    options = ["--exclude-queues", "slow", "--exclude-queues", "none", "--poll", "0.2"]
    options += ["--tasks", "send"]
    sqlite_shell.ok("enqueue", "shop:app", "send", "--queue", "slow")
    sqlite_shell.ok("enqueue", "shop:app", "send")
    with working(sqlite_shell, *options, "--processes", "2") as worker:
        assert worker.wait_for(lambda record: record.get("outcome"))["job"] == 2
        one, *_ = sqlite_shell.json("stats", "shop:app")["workers"]
        assert (one["tasks"], one["exclude_queues"]) == (["send"], ["slow", "none"])
        assert "all but slow, none" in sqlite_shell.ok("stats", "shop:app")
        assert worker.end() == 0
    assert sqlite_shell.store(lambda store: store.job(1)).state is JobState.READY
    said = sqlite_shell.refused(2, "worker", "shop:app", "--exclude-queues", "caf\udce9")
    assert "has half a character" in said
    said = sqlite_shell.refused(2, "worker", "shop:app", "--tasks", "sned")
    assert "the application has no task 'sned'" in said


def test_defaults_by_option_and_variable(shell: Shell) -> None:
    """Tasks without their own take the policy, attempts and timeout that the worker is given."""
    shell.ok("enqueue", "shop:app", "send", '{"note": "fail"}')
    with working(
        shell, "--poll", "0.2", "--retry", "delays:0s,0s,0s", MUTIRAO_WORKER_MAX_ATTEMPTS="2"
    ) as worker:
        worker.wait_for(lambda record: record.get("outcome") == "dead")
        assert worker.end() == 0
    assert len(shell.store(lambda store: store.job(1)).attempts) == 2
    said = shell.refused(2, "worker", "shop:app", "--retry", "sometimes")
    assert "'sometimes' is no retry policy; write exponential" in said


def test_retention_by_option_and_variable(sqlite_shell: Shell) -> None:
    """What is old enough is deleted when a worker starts; several processes are told the same."""
    sqlite_shell.history()
    options = ("--queues", "none", "--keep-cancelled", "forever", "--keep-succeeded", "0s")
    more = {"MUTIRAO_WORKER_KEEP_DEAD": "0s", "MUTIRAO_WORKER_PRUNE_BATCH": "1"}

    def left() -> set[str]:
        return {each["state"] for each in sqlite_shell.json("list", "shop:app")}

    assert {"succeeded", "dead", "cancelled"} <= left()
    with working(sqlite_shell, *options, "--processes", "2", **more) as worker:
        wait_until(lambda: not {"succeeded", "dead"} & left())
        assert worker.end() == 0
    assert "cancelled" in left()
    said = sqlite_shell.refused(2, "worker", "shop:app", "--keep-dead", "90")
    assert "'90' has no unit; write 90d" in said


def test_several_processes(sqlite_shell: Shell) -> None:
    """Each is a worker; one that is killed is started again; SIGTERM ends them all."""
    with working(sqlite_shell, "--processes", "2") as worker:
        pids = [_started(worker) for _ in range(2)]
        os.kill(pids[0], signal.SIGKILL)
        worker.wait_for_message("was killed by SIGKILL; again in 0.5 s")
        pids.append(_started(worker))
        assert len(set(pids)) == 3
        assert worker.end() == 0
        worker.wait_for_message("stopped")
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_several_processes_on_a_server_that_is_read_only_for_a_while(
    migrated_postgresql_url: str,
    postgres: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It passes: neither ends, none is started again, and the jobs that come then are run."""
    shell = make_shop(migrated_postgresql_url, tmp_path, monkeypatch)
    options = ("--heartbeat", "0.2", "--expiry", "10", "--poll", "0.2")
    with working(shell, "--processes", "2", *options) as worker:
        for _ in range(2):
            _started(worker)
        with postgres.read_only():
            for _ in range(2):
                worker.wait_for_message("the database is read-only")
        shell.ok("enqueue", "shop:app", "send", '{"order_id": 7}')
        worker.wait_for(lambda record: record.get("outcome") == "succeeded")
        assert worker.end() == 0
        assert not [record for record in worker.log if "again in 0.5 s" in record["message"]]
        assert sum(record["message"].endswith(") started") for record in worker.log) == 2


CARRIED = """
import asyncio

from mutirao.transports.memory import MemoryTransport

app.transports = {"mail": MemoryTransport("carried")}
asyncio.run(app.transports["mail"].declare(["mail"]))
"""


def test_a_relay(sqlite_shell: Shell) -> None:
    """It is a process like a worker: it carries, logs, and ends by a signal with status 0."""
    sqlite_shell.ok("enqueue", "shop:app", "send")
    shop = sqlite_shell.directory / "shop.py"
    shop.write_text(shop.read_text() + CARRIED)
    with working(sqlite_shell, "--together", "5", "--grace", "1", command="relay") as relay:
        relay.wait_for_message("relaying mail; it runs no job")
        wait_until(lambda: sqlite_shell.store(lambda store: store.recall(["mail"], 0.0, 9)))
        assert relay.end() == 0
        relay.wait_for_message("worker 1 stopped")
    said = sqlite_shell.refused(2, "relay", "shop:app", "-q", "video")
    assert "no broker carries queue video" in said


def test_several_processes_that_cannot_start(sqlite_shell: Shell) -> None:
    """What starting again would not mend ends them all, with the status of each."""
    command = [sys.executable, "-m", "mutirao", "worker", "shop:apq", "--processes", "2"]
    ended = subprocess.run(
        command, cwd=sqlite_shell.directory, capture_output=True, text=True, timeout=DEADLINE
    )
    assert ended.returncode == 2
    said = [line for line in ended.stderr.splitlines() if line.startswith("mutirao: ")]
    assert len(said) == 2
    assert all("there is shop:app" in line for line in said)


ENDS = """
import os

@app.task(name="ends", queue="mail", max_attempts=1)
async def ends() -> None:
    os._exit(3)
"""


@pytest.mark.repeats(decided="tests/integration/worker/test_unfit.py")
def test_a_handler_that_ends_a_process_as_an_unfit_schema_does(sqlite_shell: Shell) -> None:
    """It is started again, as after any other death."""
    shop = sqlite_shell.directory / "shop.py"
    shop.write_text(shop.read_text() + ENDS)
    sqlite_shell.ok("enqueue", "shop:app", "ends")
    with working(sqlite_shell, "--processes", "2") as worker:
        worker.wait_for_message("ended with status 3; again in 0.5 s")
        assert worker.end() == 0


CHANGED = """

@app.task(name="later", queue="mail")
def later() -> None:
    pass
"""


def test_reload(sqlite_shell: Shell) -> None:
    """A changed file stops the workers as a signal does, and new ones run the new code."""
    shop = sqlite_shell.directory / "shop.py"
    code = shop.read_text()
    with working(sqlite_shell, "--poll", "0.2", "--processes", "2", MUTIRAO_WORKER_RELOAD="1") as w:
        first = {_started(w), _started(w)}
        shop.write_text(code + CHANGED)
        found = w.wait_for_message("shop.py changed: starting the worker processes again")
        assert found["level"] == "WARNING"  # so it is there at --log-level warning, too
        w.wait_for_message("stopped")
        second = {_started(w), _started(w)}
        assert not first & second
        sqlite_shell.ok("enqueue", "shop:app", "later")
        assert w.wait_for(lambda record: record.get("outcome"))["task"] == "later"
        assert w.end(signal.SIGINT) == 0
    for pid in (*first, *second):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_reload_of_what_cannot_start(sqlite_shell: Shell) -> None:
    """It is told, and waits for the change that mends it; or for the end."""
    shop = sqlite_shell.directory / "shop.py"
    code = shop.read_text()
    shop.write_text(code + "\nnot python")
    with working(sqlite_shell, "--reload") as worker:
        worker.wait_for(lambda record: "importing 'shop' failed" in record.get("raw", ""))
        worker.wait_for_message("ended with status 2; again after a change")
        shop.write_text(code)
        worker.wait_for_message("started")
        shop.write_text(code + "\nnot python either")
        worker.wait_for_message("ended with status 2; again after a change")
        assert worker.end() == 0


def test_reload_without_its_package(sqlite_shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what brings it."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    said = sqlite_shell.refused(2, "worker", "shop:app", "--reload")
    assert "pip install 'mutirao[reload]'" in said


def test_settings_that_do_not_fit_together(sqlite_shell: Shell) -> None:
    """They are refused before anything is started."""
    said = sqlite_shell.refused(2, "worker", "shop:app", "--heartbeat", "5", "--expiry", "6")
    assert "give at least twice the heartbeat" in said


def test_the_command_is_installed() -> None:
    """`mutirao` is on the path of the environment, and tells its version."""
    command = os.path.join(os.path.dirname(sys.executable), "mutirao")
    ended = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=DEADLINE)
    assert ended.returncode == 0
    assert ended.stdout.startswith("mutirao, version ")


def _started(worker: Worker) -> int:
    """Wait until a worker has started, and return its process id, which is in its name."""
    message = worker.wait_for_message(") started")["message"]
    return int(message.partition(":")[2].partition(")")[0])
