"""How each command of the documents is run in a fresh clone: shortened where it is long.

A command has the first line whose pattern it matches. Its words stay as they are shown; `more`
comes after them, where the last word counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """Run as shown, with `more` options; `until` it says this, where it runs on."""

    more: str = ""
    until: str = ""


@dataclass(frozen=True)
class Shown:
    """A test of its own runs it in a fresh clone, and looks at what comes of it."""

    by: str


@dataclass(frozen=True)
class NotRun:
    """It is not run, for a reason."""

    why: str


How = Run | Shown | NotRun

_PEERS = "it installs ten systems from PyPI and npm, which is an hour; the same with two is run"
_QUICK = "--only raw,mutirao --works latency --runs 1 --quick"
_ONE = "tests/unit/test_retry.py -k test_retry -n 0"
_ORDEAL = "--rounds 0 --seconds 10 --shortest 2 --longest 3"
_IDLE = "--seconds 1 --settling 0.5"

HOW: tuple[tuple[str, How], ...] = (
    (r"make demo.*", Shown("tests/acceptance/test_demo.py")),
    (r"\.ci/run", NotRun("it is what runs these tests: `make check test` from a clean clone")),
    # What the tests of everything else are is not the question, but that they begin and end.
    (r"make test-all", Run(_ONE)),
    (r"make test ARGS=.*", Run(_ONE)),
    (r"make test", Run(_ONE)),
    (r"make check", NotRun("`.ci/run` begins with it, in a clean clone; it takes minutes")),
    (r"make docs.*", NotRun("`make test-all` does so first; `make check` reads the same sources")),
    (r"make extras.*", Run("--extra postgresql --python 3.11")),
    (r"make dist.*", Run()),
    (r"make catalogues.*", Run()),
    (r"make drawings", NotRun("Graphviz is not installed by us; a test compares what it drew")),
    (r"make (format|venv)", Run()),
    (r"make chaos.*--carried.*", Run("--jobs 300 --restarts 1 --purges 1 --cuts 0 --pause 1")),
    (r"make chaos.*--inbox.*", Run("--inbox 300 --restarts 1 --purges 1 --cuts 0 --pause 1")),
    (r"make chaos.*--alone.*", Run("--alone 300 --restarts 1 --purges 1 --cuts 0 --pause 1")),
    (r"make chaos.*--publications.*", Run("--publications 50 --restarts 1 --pause 1")),
    (r"make chaos", Run("--jobs 300 --restarts 1 --pause 1")),
    (r".*tests\.faults\.chaos\.loops", Run("--seconds 10 --cut-for 2")),
    (r".*tests\.acceptance\.django_shop.*", Run("--orders 100")),
    (r".*tests\.acceptance\.with_(wagtail|django_ca)", NotRun("it downloads another project")),
    (r".*benchmarks\.django_(enqueue|drain).*", NotRun("it needs django-tasks-db, and a database")),
    (r"make cron-oracle.*", Run("--lines 100")),
    (r"make ordeal.*--carried.*", Run(f"--troubles broker-crash {_ORDEAL}")),
    (r"make ordeal.*", Run(f"--troubles kill {_ORDEAL}")),
    (r"make hammer.*", Run("--seconds 3")),
    (r".*tests\.faults\.hammer\.lanes", Run("--jobs 1000 --seconds 10")),
    (r"make images", NotRun("it writes into docs; tests/integration/web runs the same without")),
    (r"make simulate ARGS=--defects", Run()),
    # The rows of it take half an hour, and download what they run on: they are named.
    (r"make matrix.*", Run("--list")),
    (r".*tests\.matrix\.tables", Run()),
    (r".*tests\.matrix\.beside.*", NotRun("it needs a PostgreSQL that the matrix downloads")),
    (r"MUTIRAO_TEST_ROOT=.*", NotRun("it needs servers that the matrix downloads")),
    (r'make simulate ARGS="--seed 7 --job 3"', Run()),
    (r"make simulate.*", Run("--seeds 4")),
    (r".*tests\.support\.(postgresql|mariadb|mysql)", Run(until="://")),
    (r".*tests\.integration\.migrations\.test_committed", Run()),
    (r".*tests\.support\.(reference_pages|env_example)", Run()),
    (r"make bench( ARGS=--quick)?", NotRun(_PEERS)),
    (r"make bench.*--database mysql.*", Run(_QUICK)),
    (r"make bench.*", Run(_QUICK)),
    (r".*benchmarks\.peers\.report.*", Shown("tests/acceptance/test_benchmarks.py")),
    (r"make measure.*\bbi\b.*", Shown("tests/integration/benchmarks/test_bi.py")),
    (r"make measure", Run()),
    (r"make measure.*[= \"](drain|limits|fairness).*", Run("--jobs 500 --runs 1")),
    (r"make measure.*\blatency.*", Run("--jobs 20 --runs 1")),
    (r"make measure.*\btelemetry.*", Run("--jobs 300 --rounds 1")),
    (r"make measure.*\bsustained.*", Run("--seconds 2")),
    (r"make measure.*\bidle.*", Run(_IDLE)),
    (r"make measure.*\bmemory.*", Run("--jobs 2000")),
    (r"make measure.*\bweb\b.*", Run("--finished 3000 --live 600 --asks 1")),
    (r"make measure.*\bstart\b.*", Run("--rounds 1")),
    (r"make measure.*\btransactions.*", Run("--jobs 100 --runs 1")),
    (r"make measure.*\bfleet.*", Run(f"--workers 1,2 --jobs 10 {_IDLE}")),
    (r"make measure.*\bbacklog.*", Run("--sizes 100,200 --jobs 100 --claims 5 --scheduled 100")),
    (r"make measure.*\bwebhooks.*", Run("--jobs 200")),
    (r"make measure.*\bpublish.*", Run("--jobs 20 --told 100 --runs 1")),
    (r"make measure.*\bschedules.*", Run(f"--due 20 --workers 1 --resting 50 {_IDLE}")),
    (r"make measure.*\bcarried.*", Run("--jobs 200 --workers 1 --seconds 5 --settling 0.5")),
    (r"make measure.*\bdatabases.*", Run(f"--files 2 --servers 1 {_IDLE}")),
    (r"make measure.*\brabbitmq.*", Run("--jobs 200")),
    (r"make measure.*\bsqs.*", Run("--jobs 20 --rounds 1")),
    (r"MUTIRAO_TEST_MYSQL_URL=.*", Run("-k enqueue -x")),
    (
        r"make venv && .*examples/.*",
        NotRun("tests/acceptance runs each, as a program"),
    ),
    (r"\.venv/bin/python examples/shop/.*", NotRun("`make demo` is the same")),
    (r"MUTIRAO_FUZZ=.*", Shown("tests/integration/web/test_fuzz.py")),
)


def how(command: str) -> How:
    """Return how a command is run. Raises AssertionError, with what to do, where nobody says."""
    for pattern, each in HOW:
        if re.fullmatch(pattern, command):
            return each
    raise AssertionError(f"nobody knows how `{command}` is tried: add a line to HOW in {__file__}")


def longer(command: str, more: str) -> str:
    """Return a command with more options: within ARGS, if it is one of make."""
    if not more:
        return command
    if not command.startswith("make "):
        return f"{command} {more}"
    first, _, args = command.partition(" ARGS=")
    return f'{first} ARGS="{f"{args.strip(chr(34))} {more}".strip()}"'
