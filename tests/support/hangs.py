"""A pytest plugin: ends tests that hang, and names each failure at once.

A test that hangs ends its process, with the stacks of all threads and tasks. Nothing milder will
do: an exception out of a signal may be raised in a callback of the event loop, which logs it and
goes on; and pytest-timeout, like pytest's own `faulthandler_timeout`, forgets a test as soon as it
has failed, though its fixtures may then wait for ever for what it left behind. Under xdist the
other processes go on, and the report names the test; the one that ended is not to be replaced
(`--max-worker-restart=0`), or xdist 3.8 waits for ever where no test is left for it.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

# A failing example is shown as it was found. Shrinking it takes up to five minutes, so that the
# test would be taken for one that hangs, and nothing would be shown at all:
# `--hypothesis-profile=default` does look. How long examples take to draw says how busy the machine
# is, and a timing is never a test.
settings.register_profile(
    "found",
    phases=[each for each in Phase if each is not Phase.shrink],
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
    deadline=None,
)
settings.load_profile("found")


class Watch:
    """Ends the process when a test takes too long, in seconds."""

    def __init__(self, too_long: float, stderr: int) -> None:
        self._too_long = too_long
        self._stderr = stderr

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Watch a test and its fixtures."""
        timer = threading.Timer(self._too_long, self._print_tasks)
        timer.daemon = True
        timer.start()
        self._alarm()
        try:
            return (yield)
        finally:
            timer.cancel()
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Keep watching: pytest has just cancelled the alarm, also one that it did not set."""
        self._alarm()

    def _alarm(self) -> None:
        # The tasks are printed first, where the interpreter can still run.
        faulthandler.dump_traceback_later(self._too_long + 5, exit=True, file=self._stderr)

    def _print_tasks(self) -> None:
        """Print where each coroutine of all event loops waits: no thread's stack shows that."""
        with open(os.dup(self._stderr), "w") as out:
            for one in gc.get_objects():
                # By type(): isinstance() asks the object, and a lazy one of Django raises.
                if issubclass(type(one), asyncio.Task) and not one.done():
                    one.print_stack(file=out)


class FailureNames:
    """Names each failure when it happens: a run that is cut off has shown some by then."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a test that failed, and its last words."""
        terminal = self._config.pluginmanager.getplugin("terminalreporter")
        if report.failed and terminal is not None:
            last_words = report.longreprtext[-300:]
            terminal.write(f"\n{report.nodeid} ({report.when}): {last_words}\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting that tests of this plugin shorten."""
    parser.addini("too_long", "seconds for a test with its fixtures", default="300")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the way to the terminal that pytest has from everybody else."""
    if not hasattr(config, "workerinput"):  # as xdist's processes have it
        config.pluginmanager.register(FailureNames(config))
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        config.pluginmanager.register(Watch(float(config.getini("too_long")), os.dup(2)))
