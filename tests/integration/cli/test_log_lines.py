"""What a worker's process writes to standard error: a line for each event, whoever logs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Shell
from tests.integration.cli.test_worker import Worker, working

NASTY = 'x\n{"level": "CRITICAL"}\r\x1b[2J\u2028'

LOGGING = f"""
import logging, threading, warnings
from contextvars import copy_context

log = logging.getLogger("shop.orders")
logging.info("adds a handler, which nobody has chosen")
NASTY = {NASTY!r}

@app.task
async def by_loop() -> None:
    log.info("loop %s", NASTY, extra={{"level": NASTY}})

@app.task
def by_thread() -> None:
    log.info("thread %s", NASTY)
    warnings.warn(NASTY)
    try:
        raise ValueError(NASTY)
    except ValueError:
        log.exception("failed %s", NASTY)

@app.task
def by_thread_of_its_own() -> None:
    own = threading.Thread(target=copy_context().run, args=(log.info, "own %s", NASTY))
    own.start()
    own.join()

@app.task(process=True)
def by_process() -> None:
    log.info("process %s", NASTY)
    log.info("%d", "no number")
"""


def say(shell: Shell, code: str) -> None:
    """Add code to the application."""
    shop = shell.directory / "shop.py"
    shop.write_text(shop.read_text() + code)


def ended(worker: Worker, number: int) -> None:
    """Wait until so many attempts have ended."""
    for _ in range(number):
        worker.wait_for(lambda record: record.get("event") == "attempt.ended")


def test_each_record_says_of_which_job_it_is(sqlite_shell: Shell) -> None:
    """In the loop, in threads and in child processes; and no text makes a line of its own."""
    say(sqlite_shell, LOGGING)
    names = ("by_loop", "by_thread", "by_thread_of_its_own", "by_process")
    for name in names:
        sqlite_shell.ok("enqueue", "shop:app", name, "--tenant", "acme")
    with working(sqlite_shell, "-c", "1", MUTIRAO_LOG_DEBUG="1") as worker:
        ended(worker, len(names))
        assert worker.end() == 0
        lines = worker.log
    assert all("raw" not in each for each in lines)
    said = [each for each in lines if each["logger"] == "shop.orders"]
    job = {"queue": "default", "attempt": 1, "run": 1, "tenant": "acme"}
    told = [(each["message"].split()[0], each["task"]) for each in said]
    assert told == [
        ("loop", "by_loop"),
        ("thread", "by_thread"),
        ("failed", "by_thread"),
        ("own", "by_thread_of_its_own"),
        ("process", "by_process"),
    ]
    for each in said:
        assert {name: each[name] for name in job} == job
        assert each["message"].endswith(NASTY)
        assert each["level"] in ("INFO", "ERROR")
    assert {each["worker"] for each in said[:4]} == {1}
    assert said[2]["error"] == f"ValueError: {NASTY}"
    [warned] = [each for each in lines if each["logger"] == "py.warnings"]
    assert f"UserWarning: {NASTY}" in warned["message"]
    assert (warned["level"], warned["task"]) == ("WARNING", "by_thread")
    [unfit] = [each for each in lines if each["event"] == "log.unwritable"]
    assert "a record of shop.orders cannot be written: TypeError" in unfit["message"]
    starts = [each["task"] for each in lines if each["event"] == "attempt.started"]
    assert starts == [*names]  # at DEBUG


OWN = """
import logging.config, sys

logging.config.dictConfig({
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"job": {"()": "mutirao.telemetry.logs.JobFields"}},
    "formatters": {"own": {"()": "logging.Formatter",  # Python 3.11 has no other way to defaults
                           "fmt": "%(levelname)s|%(name)s|%(message)s|%(job)s",
                           "defaults": {"job": "-"}}},
    "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own", "filters": ["job"]}},
    "root": {"handlers": ["own"], "level": "WARNING"},
})

@app.task(process=True)
def by_process() -> None:
    logging.getLogger("shop").warning("from a process")

@app.task
def by_thread() -> None:
    logging.getLogger("shop").warning("from a thread")
    app.log_level = logging.getLogger("mutirao").level
    logging.getLogger("shop").warning("level %s, of root %s", app.log_level, logging.root.level)
"""


def test_what_the_application_sets_up_itself(sqlite_shell: Shell) -> None:
    """Nothing of ours is added: no handler, no level. That --log-format has no effect is said."""
    say(sqlite_shell, OWN)
    for name in ("by_process", "by_thread"):
        sqlite_shell.ok("enqueue", "shop:app", name)
    with working(sqlite_shell, "-c", "1") as worker:
        worker.wait_for(lambda record: "level" in record["raw"])
        assert worker.end() == 0
    lines = [each["raw"].rstrip("\n") for each in worker.log]
    assert lines[0].startswith("WARNING|mutirao|the application sets up logging itself, so")
    assert lines[1:] == [
        "WARNING|shop|from a process|1",
        "WARNING|shop|from a thread|2",
        "WARNING|shop|level 0, of root 30|2",
    ]


def test_variables_of_all_commands(tmp_path: Path) -> None:
    """They count where the command's own are not there. Lines of an import look like the others."""
    (tmp_path / "shop.py").write_text(
        "import logging\nlogging.getLogger('shop').warning('half done')\n1/0\n"
    )
    command = [sys.executable, "-m", "mutirao", "worker", "shop:app"]
    env = {"MUTIRAO_LOG_FORMAT": "logfmt"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    line, refused = done.stderr.splitlines()
    assert line.endswith('level=WARNING event=log logger=shop message="half done"')
    assert "importing 'shop' failed with ZeroDivisionError" in refused


def test_an_unknown_format(shell_without_database: Shell) -> None:
    """It is refused, unless the command's own variable says another."""
    refused = shell_without_database.run("hub", env={"MUTIRAO_LOG_FORMAT": "xml"})
    assert "'xml' is not one of 'text', 'json', 'logfmt'" in refused.stderr
    said = {"MUTIRAO_LOG_FORMAT": "xml", "MUTIRAO_HUB_LOG_FORMAT": "json"}
    again = shell_without_database.run("hub", "nowhere:app", env=said)
    assert "there is no module 'nowhere'" in again.stderr


@pytest.fixture
def shell_without_database(tmp_path: Path) -> Shell:
    """Commands that do not come as far as a database."""
    return Shell("", tmp_path)
