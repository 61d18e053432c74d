"""A pytest plugin: prints the twenty slowest tests and files after a run of many tests.

Set-up and clean-up count for the test that they are made for. docs/contributing/tests.md
has the list of the slowest files.
"""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter

import pytest

SHOWN = 20
MANY = 200  # tests; fewer are not worth a list


class Slowest:
    """Adds up how long tests take."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one part of a test: its set-up, its call or its clean-up."""
        self._seconds[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the slowest tests and files."""
        if len(self._seconds) < MANY:
            return
        files: defaultdict[str, float] = defaultdict(float)
        for test, seconds in self._seconds.items():
            files[test.partition("::")[0]] += seconds
        for what, found in (("tests", self._seconds), ("files", files)):
            terminalreporter.section(f"the {SHOWN} slowest {what}")
            for name, seconds in sorted(found.items(), key=itemgetter(1), reverse=True)[:SHOWN]:
                terminalreporter.line(f"{seconds:8.2f} s  {name}")


def pytest_configure(config: pytest.Config) -> None:
    """Add up in the process that reports: with xdist, the one that runs no tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Slowest(), "slowest")
