"""`list`, `show`, `retry`, `cancel`, `change`, `redrive`, `prune` and `stats`."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import create_engine

from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter
from tests.integration.cli.conftest import Shell
from tests.support.history import FAILED

pytestmark = pytest.mark.repeats(
    "postgresql", "mysql", decided="conformance/src/mutirao_conformance/records.py"
)

_INTO = """
INSERT INTO mutirao_job (task, args, {key}, tags)
VALUES ('other', '{{ "order_id" : 7.0, "note": "7", "in": {{ "it": "Zoë" }} }}', 'k', '["x"]')"""
PLAIN = {
    "postgresql": """
        SELECT mutirao_enqueue(
            'other', '{ "order_id" : 7.0, "note": "7", "in": { "it": "Zoë" } }',
            key => 'k', tags => '["x"]'
        )""",
    "sqlite": _INTO.format(key="key"),
    "mysql": _INTO.format(key="`key`"),
}


def test_list_as_plain_columns(shell: Shell) -> None:
    """Where no terminal is, a line for each job, newest first, under the columns' names."""
    assert shell.ok("list", "shop:app") == "no such jobs\n"
    made = shell.history()
    header, *lines = shell.ok("list", "shop:app").splitlines()
    assert header.split()[:4] == ["ID", "TASK", "QUEUE", "STATE"]
    by_id = {int(line.split()[0]): line for line in lines}
    assert list(by_id) == sorted(by_id, reverse=True)
    assert by_id[made.dead].split()[3] == "dead"
    assert by_id[made.dead].endswith("ValueError: ValueError: no such order")


def test_list_on_a_narrow_terminal(sqlite_shell: Shell) -> None:
    """What tells jobs apart is whole at 80 columns; times and errors are cut first."""
    sqlite_shell.history()
    shown = sqlite_shell.ok("list", "shop:app", env={"FORCE_COLOR": "1", "COLUMNS": "80"})
    for state in ("scheduled", "succeeded", "cancelled", "running"):
        assert state in shown


def test_json_of_all_commands(sqlite_shell: Shell) -> None:
    """`mutirao --json` says it before the command, as a variable says it for all."""
    assert json.loads(sqlite_shell.ok("--json", "list", "shop:app")) == []
    assert sqlite_shell.ok("list", "shop:app") == "no such jobs\n"


def test_list_on_a_terminal(shell: Shell) -> None:
    """There it is a table with lines and colours."""
    shell.history()
    shown = shell.ok("list", "shop:app", env={"FORCE_COLOR": "1"})
    assert "│" in shown
    assert "\x1b[" in shown


def test_list_as_json(shell: Shell) -> None:
    """One array of jobs, with everything that is known of each."""
    made = shell.history()
    jobs = {job["id"]: job for job in shell.json("list", "shop:app")}
    assert len(jobs) == 7
    assert jobs[made.dead]["error"] == FAILED
    assert jobs[made.running]["worker"] == made.worker
    assert jobs[made.scheduled]["run_at"].endswith("Z")
    assert "attempts" not in jobs[made.dead]  # `show` reads them
    assert shell.json("show", "shop:app", made.dead)["attempts"]


def test_half_a_character(shell: Shell) -> None:
    """Another program may have put it into a job's arguments: JSON has it escaped."""
    plain = """SELECT mutirao_enqueue('other', '{"n": "\\ud800"}')"""
    row = """INSERT INTO mutirao_job (task, args) VALUES ('other', '{"n": "\\ud800"}')"""
    engine = create_engine(shell.url)
    if shell.url.startswith("mysql"):
        row = row.replace("\\", "\\\\")
    with engine.begin() as connection:
        connection.exec_driver_sql(plain if connection.dialect.name == "postgresql" else row)
    engine.dispose()
    assert [job["args"] for job in shell.json("list", "shop:app")] == [{"n": "\ud800"}]
    assert shell.json("show", "shop:app", 1)["args"] == {"n": "\ud800"}
    assert "other" in shell.ok("list", "shop:app")
    assert "ud800" in shell.ok("show", "shop:app", 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--state", "dead"], {"dead"}),
        (["--state", "scheduled"], {"retried", "scheduled"}),
        (["--queue", "other"], set()),
        (["--task", "send", "--state", "ready"], {"ready"}),
        (["--tag", "none"], set()),
        (["--error-type", "ValueError"], {"dead", "retried"}),
        (["--after", "2h", "--state", "running"], {"running"}),
        (["--before", "2h"], set()),
        (["--before", "2020-01-01T00:00:00Z"], set()),
        (["--after", "2020-01-01T00:00:00-03:00", "--state", "cancelled"], {"cancelled"}),
    ],
)
def test_list_filters(sqlite_shell: Shell, options: list[str], expected: set[str]) -> None:
    """Each option narrows the list."""
    made = sqlite_shell.history()
    found = {job["id"] for job in sqlite_shell.json("list", "shop:app", *options)}
    assert found == {getattr(made, name) for name in expected}


def test_list_by_what_was_enqueued(shell: Shell) -> None:
    """By arguments, a key, and several states; jobs of plain SQL like others."""
    shell.ok("enqueue", "shop:app", "send", '{"order_id": 7, "note": "late"}', "--key", "k")
    shell.ok("enqueue", "shop:app", "send", '{"order_id": 8}')
    engine = create_engine(shell.url)
    with engine.begin() as conn:
        conn.exec_driver_sql(PLAIN[conn.dialect.name])
    engine.dispose()
    for options, expected in (
        (["--arg", "order_id=7"], [3, 1]),
        (["--arg", "order_id=7", "--arg", "note=late"], [1]),
        (["--arg", 'note="7"'], [3]),
        (["--arg", "in.it=Zoë"], [3]),
        (["--arg", "in.it=7"], []),
        (["--arg", "note=7"], []),
        (["--key", "k"], [3, 1]),
        (["--queue", "mail", "--queue", "default"], [3, 2, 1]),
        (["--queue", "mail", "--queue", "none"], [2, 1]),
        (["--key", "k", "--tag", "x", "--state", "ready", "--state", "dead"], [3]),
        (["--state", "dead", "--state", "running"], []),
    ):
        assert [job["id"] for job in shell.json("list", "shop:app", *options)] == expected
    said = shell.refused(2, "cancel", "shop:app", "--arg", "order_id=7", "--state", "ready")
    assert "To cancel all jobs of order_id 7, state ready, add --yes." in said
    assert "'order_id' is no argument; write order_id=7" in shell.refused(
        2, "list", "shop:app", "--arg", "order_id"
    )
    changed = shell.json("change", "shop:app", "--arg", "order_id=7", "--priority", 1, "--yes")
    assert changed["ids"] == [1, 3]


def test_list_by_id_and_limit(sqlite_shell: Shell) -> None:
    """Ids name jobs, and a limit keeps the newest."""
    made = sqlite_shell.history()
    ids = [job["id"] for job in sqlite_shell.json("list", "shop:app", made.dead, made.ready)]
    assert ids == [made.ready, made.dead]
    (newest,) = sqlite_shell.json("list", "shop:app", "--limit", 1)
    assert newest["id"] == made.ready


def test_show(shell: Shell) -> None:
    """A job's facts, its attempts, and the whole text of its error."""
    made = shell.history()
    shown = shell.ok("show", "shop:app", made.dead)
    assert f"id:           {made.dead}\n" in shown
    assert "state:        dead\n" in shown
    assert "key:" not in shown
    attempts = next(block for block in shown.split("\n\n") if block.startswith("ATTEMPT"))
    assert attempts.splitlines()[1].split()[3] == "dead"
    assert shown.endswith(f"\n\n{FAILED}\n")
    assert "not attempted yet" in shell.ok("show", "shop:app", made.ready)


def test_show_as_json(shell: Shell) -> None:
    """One object, with its attempts."""
    made = shell.history()
    job = shell.json("show", "shop:app", made.retried)
    assert (job["id"], job["state"], job["attempt"]) == (made.retried, "scheduled", 1)
    assert [attempt["outcome"] for attempt in job["attempts"]] == ["retried"]


def test_show_of_an_unknown_job(shell: Shell) -> None:
    """It is refused, in one line."""
    said = shell.refused(1, "show", "shop:app", 99)
    assert said.startswith("mutirao: There is no job 99.")
    assert len(said.splitlines()) == 1


def test_what_a_job_says_cannot_command_the_terminal(sqlite_shell: Shell) -> None:
    """Control characters in names and errors are shown as such, and rich's markup is text."""
    sqlite_shell.ok("enqueue", "shop:app", "send", '{"note": "[red]\\u001b[2J"}')
    for env in ({}, {"FORCE_COLOR": "1"}):
        for command in (["list"], ["show"]):
            ids = ["1"] if command == ["show"] else []
            assert "\x1b[2J" not in sqlite_shell.ok(*command, "shop:app", *ids, env=env)
    assert "[red]" in sqlite_shell.ok("show", "shop:app", 1)


def test_retry(shell: Shell) -> None:
    """A job that waits for its next attempt is due now."""
    made = shell.history()
    assert shell.ok("retry", "shop:app", made.retried) == f"due now: {made.retried}\n"
    state = shell.store(lambda store: store.job(made.retried)).state
    assert state is JobState.READY


def test_retry_of_what_cannot_be(shell: Shell) -> None:
    """A dead job is pointed to redrive; the others are told why; what could be done, is."""
    made = shell.history()
    result = shell.run("retry", "shop:app", made.scheduled, made.dead, made.running, 99)
    assert result.exit_code == 1
    assert result.stdout == f"due now: {made.scheduled}\n"
    dead, running, unknown = result.stderr.splitlines()
    assert "is dead; `mutirao redrive` enqueues it again" in dead
    assert f"job {made.running} is running" in running
    assert "there is no job 99" in unknown


def test_cancel(shell: Shell) -> None:
    """Waiting jobs are finished, running ones are flagged, finished ones are refused."""
    made = shell.history()
    result = shell.run("cancel", "shop:app", made.ready, made.running, made.succeeded, "--json")
    assert result.exit_code == 1
    assert f'"ids": [\n    {made.running},\n    {made.ready}\n  ]' in result.stdout
    assert f"job {made.succeeded} is succeeded" in result.stderr
    assert shell.store(lambda store: store.job(made.ready)).state is JobState.CANCELLED
    beat = shell.store(lambda store: store.beat(made.worker, expiry=60))
    assert [id for id, _ in beat.cancelled] == [made.running]


def test_cancel_by_filter(shell: Shell) -> None:
    """Every live job of the filter, however many, and no other."""
    made = shell.history()
    assert shell.json("cancel", "shop:app", "--queue", "mail", "--yes")["ids"] == [
        made.retried,
        made.running,
        made.scheduled,
        made.ready,
    ]
    assert shell.ok("cancel", "shop:app", "--queue", "other", "--yes") == "no such jobs\n"


def test_change(shell: Shell) -> None:
    """Waiting jobs have the new values; what cannot be changed is named, with its state."""
    made = shell.history()
    new = ("--priority", -5, "--to-queue", "bulk", "--delay", "2h", "--max-attempts", 3)
    result = shell.run("change", "shop:app", made.ready, made.running, made.dead, 99, *new)
    assert result.exit_code == 1
    assert result.stdout == f"changed: {made.ready}\n"
    dead, running, unknown = sorted(result.stderr.splitlines())
    assert dead == f"mutirao: job {made.dead} is dead: there is nothing to change"
    assert running == f"mutirao: job {made.running} is running: there is nothing to change"
    assert unknown == "mutirao: there is no job 99"
    job = shell.store(lambda store: store.job(made.ready))
    assert (job.priority, job.queue, job.max_attempts) == (-5, "bulk", 3)
    assert job.state is JobState.SCHEDULED


def test_change_by_filter(shell: Shell) -> None:
    """Every job of the filter that waits, and no other."""
    made = shell.history()
    at = ("--run-at", "2020-01-01T00:00:00Z")
    changed = shell.json("change", "shop:app", "--state", "scheduled", *at, "--yes")
    assert changed == {"ids": [made.retried, made.scheduled], "refused": []}
    assert shell.store(lambda store: store.job(made.retried)).state is JobState.READY


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "no new value is given; give priority, queue, run_at, delay or max_attempts"),
        (["--priority", "99999"], "priority is 99999; give a whole number from -32768 to 32767"),
        (["--to-queue", "x" * 101], "the queue name has 101 characters; give 1 to 100"),
        (["--max-attempts", "0"], "max_attempts is 0; give 1 (never retry) or more"),
        (["--delay", "1m", "--run-at", "2030-01-01T00:00:00Z"], "both run_at and delay are given"),
    ],
)
def test_change_to_what_cannot_be(sqlite_shell: Shell, options: list[str], why: str) -> None:
    """It is refused in one line, before anything is changed."""
    made = sqlite_shell.history()
    said = sqlite_shell.refused(1, "change", "shop:app", made.ready, *options)
    assert said.startswith(f"mutirao: {why}")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("command", ["cancel", "change", "redrive", "retry"])
def test_a_filter_must_be_meant(sqlite_shell: Shell, command: str) -> None:
    """Without ids a filter is needed, and a yes; nothing is done without."""
    sqlite_shell.history()
    new = ("--priority", 1) if command == "change" else ()
    assert "ids, or a filter" in sqlite_shell.refused(2, command, "shop:app", *new)
    given = ("--queue", "mail", "--state", "dead", *new)
    said = sqlite_shell.refused(2, command, "shop:app", *given)
    assert f"To {command} all jobs of queue mail, state dead, add --yes." in said
    assert len(sqlite_shell.json("list", "shop:app")) == 7


def test_redrive(shell: Shell) -> None:
    """A finished job is enqueued again; by filter dead ones are, each only once."""
    made = shell.history()
    (again,) = shell.json("redrive", "shop:app", made.dead)["ids"]
    assert shell.store(lambda store: store.job(again)).redrive_of == made.dead
    assert shell.ok("redrive", "shop:app", "--task", "send", "-y").startswith("no such jobs, but")
    for finished in (made.succeeded, made.cancelled):
        (again,) = shell.json("redrive", "shop:app", finished)["ids"]
        assert shell.json("show", "shop:app", again)["redrive_of"] == finished


def test_redrive_of_nothing(shell: Shell) -> None:
    """It says why of each, and does what can be done."""
    made = shell.history()
    result = shell.run("redrive", "shop:app", made.running, 99, made.ready)
    assert (result.exit_code, result.stdout) == (1, "")
    running, unknown, ready = result.stderr.splitlines()
    assert running == f"mutirao: job {made.running} is running: it has not ended yet"
    assert unknown.startswith(
        "mutirao: there is no job 99: it was never committed, or it was pruned"
    )
    assert ready == f"mutirao: job {made.ready} is ready: it has not ended yet"
    result = shell.run("redrive", "shop:app", made.running, made.dead)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert result.stdout.startswith("enqueued as new jobs: ")


def test_prune(shell: Shell) -> None:
    """Finished jobs of the outcomes asked for are deleted, in as many batches as it takes."""
    made = shell.history()
    assert shell.json("prune", "shop:app") == {"deleted": {"succeeded": 0, "cancelled": 0}}
    shown = shell.ok("prune", "shop:app", "--older-than", "0s", "--batch", 1)
    assert shown == "1 succeeded jobs deleted\n1 cancelled jobs deleted\n"
    left = {job.id for job in shell.store(lambda store: store.jobs(JobFilter()))}
    assert left == {made.dead, made.retried, made.running, made.scheduled, made.ready}
    options = ("--outcome", "dead", "--older-than", "0s")
    assert shell.json("prune", "shop:app", *options) == {"deleted": {"dead": 1}}


def test_stats(shell: Shell) -> None:
    """A line for each queue with its jobs by state, and one for each worker."""
    assert shell.ok("stats", "shop:app") == "no jobs\n\nno workers\n"
    made = shell.history()
    queues, workers = shell.ok("stats", "shop:app").split("\n\n")
    assert queues.splitlines()[1].split()[:8] == ["mail", "2", "1", "0", "1", "1", "1", "1"]
    assert workers.splitlines()[1].split()[:7] == [
        str(made.worker),
        "w",
        "h",
        "1",
        "mail",
        "all",
        "1",
    ]
    told = shell.json("stats", "shop:app")
    assert sum(count["jobs"] for count in told["queues"]) == 7
    assert told["workers"][0]["queues"] == ["mail"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["state:dead"], {"dead"}),
        (["state:dead,cancelled"], {"dead", "cancelled"}),
        (["task:se*", "state:ready"], {"ready"}),
        (["-state:ready,succeeded,cancelled,running,scheduled"], {"dead"}),
        (["newer:2h -state:ready", "state:ready,running"], {"running"}),
        (["error:ValueError", "--state", "dead"], {"dead"}),
        (["--state", "dead", "-task:send"], set()),
        (["older:2h"], set()),
    ],
)
def test_list_by_a_text(sqlite_shell: Shell, words: list[str], expected: set[str]) -> None:
    """Words behind the application are one filter; options narrow it; `-state:` is no option."""
    made = sqlite_shell.history()
    for env in ({}, {"MUTIRAO_APP": "shop:app"}):
        target = [] if env else ["shop:app"]
        shown = sqlite_shell.ok("list", *target, *words, "--json", env=env)
        assert {job["id"] for job in json.loads(shown)} == {getattr(made, n) for n in expected}


def test_orders_by_a_text(sqlite_shell: Shell) -> None:
    """All orders take it; what it is is said before anything is done, and needs a yes."""
    for number in range(4):
        sqlite_shell.ok("enqueue", "shop:app", "send", f'{{"order_id": {number}}}')
    refused = sqlite_shell.refused(2, "cancel", "shop:app", "arg.order_id:0")
    assert "filter arg.order_id:0, add --yes" in refused
    change = ("change", "shop:app", "id:2..3", "--priority", 7, "--yes")
    assert sqlite_shell.ok(*change) == "changed: 2, 3\n"
    assert sqlite_shell.ok("cancel", "shop:app", "priority:7", "--yes") == "cancelled: 2, 3\n"
    assert sqlite_shell.ok("retry", "shop:app", "-id:1 queue:*", "--yes") == "due now: 4\n"
    redriven = sqlite_shell.ok("redrive", "shop:app", "state:cancelled", "arg.order_id:1", "--yes")
    assert redriven == "enqueued as new jobs: 5\n"


def test_a_text_that_is_none(sqlite_shell: Shell) -> None:
    """It is refused where it is wrong, with what it may have meant; ids are what they were."""
    said = sqlite_shell.refused(2, "cancel", "shop:app", "queue:mail", "stat:dead", "--yes")
    assert "at character 12" in said
    assert "did you mean 'state'" in said
    assert "0 is no id" in sqlite_shell.refused(2, "list", "shop:app", "0")
    assert "there is no job 99" in sqlite_shell.refused(1, "cancel", "shop:app", "99")


def test_orders_are_in_the_audit(sqlite_shell: Shell) -> None:
    """Who, what, which, by ids or by all that was said, and with how many it was done."""
    assert sqlite_shell.ok("audit", "shop:app") == "nothing was done yet\n"
    for number in range(3):
        sqlite_shell.ok("enqueue", "shop:app", "send", f'{{"order_id": {number}}}')
    sqlite_shell.ok("change", "shop:app", 1, 2, "--priority", 7, "--as", "ana")
    more = ("--queue", "default", "--arg", "order_id=1", "--error-type", "E", "--after", "2h")
    sqlite_shell.ok("cancel", "shop:app", "state:ready", *more, "--yes")
    sqlite_shell.refused(1, "retry", "shop:app", 99)
    retried, cancelled, changed = sqlite_shell.json("audit", "shop:app")
    assert (changed["who"], changed["ids"], changed["change"]) == ("ana", [1, 2], '{"priority": 7}')
    assert (changed["state"], changed["done"]) == ("done", 2)
    assert cancelled["filter"].startswith("state:ready queue:default arg.order_id:1 error:E after:")
    assert (cancelled["action"], cancelled["done"], cancelled["ids"]) == ("cancel", 0, None)
    assert (retried["ids"], retried["done"]) == ([99], 0)
    assert sqlite_shell.ok("audit", "shop:app", "--limit", 1).splitlines()[1].split()[2] == "retry"
    assert "no action 3 is running" in sqlite_shell.refused(1, "audit", "shop:app", "--stop", 3)
