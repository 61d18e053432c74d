"""A pytest plugin: a test that hangs ends its process, with the stacks of all threads.

Nothing milder is sure. An exception out of a signal may be raised in a callback of the event loop,
which logs it and goes on; and pytest-timeout, like pytest's own `faulthandler_timeout`, forgets a
test as soon as it has failed, though its fixtures may then wait for ever for what it left behind.
Under xdist the other processes go on, and the report names the test.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator

import pytest

A_TEST = 300.0  # seconds, its fixtures included


class Watch:
    """Ends the process when a test takes too long."""

    def __init__(self, stderr: int) -> None:
        self._stderr = stderr

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Watch a test and its fixtures."""
        self._alarm()
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Watch on: pytest has just called the alarm off, whoever set it."""
        self._alarm()

    def _alarm(self) -> None:
        faulthandler.dump_traceback_later(A_TEST, exit=True, file=self._stderr)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the way to the terminal that pytest has from everybody else."""
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        config.pluginmanager.register(Watch(os.dup(2)))
