"""The pytest fixtures, as a project uses them."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
    pytest_plugins = ["mutirao.testing.fixtures"]
"""
APP = """
    import pytest
    from mutirao import Mutirao

    app = Mutirao("sqlite:////nowhere/at/all.db")
    sent = []

    @app.task
    def send(order_id: int) -> None:
        sent.append(order_id)

    @pytest.fixture
    def mutirao_app():
        sent.clear()
        return app
"""
TESTS = """
    def test_captured(captured_jobs):
        send.enqueue(7)
        captured_jobs.assert_enqueued(send, order_id=7)
        assert sent == []

    def test_inline(inline_jobs):
        send.enqueue(7)
        assert sent == [7]
        assert len(inline_jobs) == 1

    def test_memory(memory_store):
        assert memory_store.enqueue([send.job(7)], conn=object()) == [1]
"""


def run(pytester: pytest.Pytester, tests: str) -> pytest.RunResult:
    """Run a project's tests in a process of their own."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(tests)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider")


def test_a_project_s_tests(pytester: pytest.Pytester) -> None:
    """Each fixture is about the application that the project names."""
    run(pytester, APP + TESTS).assert_outcomes(passed=3)


def test_without_an_application(pytester: pytest.Pytester) -> None:
    """The error says which fixture to define."""
    result = run(pytester, "def test_captured(captured_jobs): ...")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*define a fixture mutirao_app that returns it*"])
