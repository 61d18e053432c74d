"""From how a handler ended to an outcome: the whole table, without a database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from mutirao.engine.calls.outcomes import POLICY_FAILED_DELAY, dead, of_error, shortened
from mutirao.errors import AttemptTimeout, StaleRun
from mutirao.model.jobs.job import MAX_ERROR_TEXT, OutcomeKind
from mutirao.model.jobs.retry import MAX_WAIT, Cancel, Dead, Retry, RetryPolicy, Snooze

MOMENT = datetime(2026, 3, 1, tzinfo=UTC)
POLICY = Retry.fixed(3, interval=7, never=(KeyError,), by_type={OSError: Retry.linear(5)})


def judged(error: BaseException, attempt: int = 1, limit: int | None = None) -> tuple[Any, ...]:
    """Return kind, wait and moment of the outcome."""
    outcome = of_error(error, attempt, limit, POLICY)
    return outcome.kind, outcome.after, outcome.at


class TestKinds:
    """Which outcome follows."""

    def test_an_error(self) -> None:
        """Is retried as the policy says, until the last attempt."""
        for attempt in (1, 2):
            assert judged(ValueError(), attempt) == (OutcomeKind.RETRIED, 7.0, None)
        for attempt in (3, 4):
            assert judged(ValueError(), attempt) == (OutcomeKind.DEAD, None, None)

    def test_an_error_that_is_final(self) -> None:
        """Dead at once."""
        assert judged(KeyError()) == (OutcomeKind.DEAD, None, None)

    def test_an_error_with_a_policy_of_its_own(self) -> None:
        """Its waits and its limit."""
        assert judged(OSError(), 4) == (OutcomeKind.RETRIED, 240.0, None)
        assert judged(OSError(), 5) == (OutcomeKind.DEAD, None, None)
        assert judged(AttemptTimeout(), 3) == (OutcomeKind.RETRIED, 180.0, None)

    @pytest.mark.parametrize("error", [ValueError(), OSError(), Retry(), Retry(after=1)])
    def test_the_job_s_own_limit(self, error: BaseException) -> None:
        """Stands instead of any policy's."""
        assert judged(error, 1, limit=1)[0] is OutcomeKind.DEAD
        assert judged(error, 99, limit=100)[0] is OutcomeKind.RETRIED
        assert judged(error, 100, limit=100)[0] is OutcomeKind.DEAD

    def test_retry(self) -> None:
        """When it says, or else as the policy says."""
        assert judged(Retry(after=2)) == (OutcomeKind.RETRIED, 2.0, None)
        assert judged(Retry(after=0)) == (OutcomeKind.RETRIED, 0.0, None)
        assert judged(Retry(at=MOMENT)) == (OutcomeKind.RETRIED, None, MOMENT)
        assert judged(Retry()) == (OutcomeKind.RETRIED, 7.0, None)

    @pytest.mark.parametrize("attempt", [1, 3, 99])
    def test_what_ignores_attempts(self, attempt: int) -> None:
        """A snooze does not count one, the others need no more."""
        assert judged(Snooze(5), attempt) == (OutcomeKind.SNOOZED, 5.0, None)
        assert judged(Snooze(at=MOMENT), attempt)[::2] == (OutcomeKind.SNOOZED, MOMENT)
        assert judged(Dead("x"), attempt) == (OutcomeKind.DEAD, None, None)
        assert judged(Cancel("x"), attempt) == (OutcomeKind.CANCELLED, None, None)

    @pytest.mark.parametrize("attempt", [1, 3])
    def test_a_stale_run(self, attempt: int) -> None:
        """Whoever took the job decides; should nobody have it, it runs again at once."""
        assert judged(StaleRun(), attempt) == (OutcomeKind.RETRIED, 0.0, None)

    def test_a_policy_that_asks_about_the_error(self) -> None:
        """Gets it, but no signal."""
        asked: list[BaseException | None] = []

        def wait(attempt: int, error: BaseException | None) -> float:
            asked.append(error)
            return 1.0

        policy, error = Retry.by(wait), ValueError()
        for raised in (error, Retry()):
            of_error(raised, 1, None, policy)
        assert asked == [error, None]

    @pytest.mark.parametrize(
        "backoff",
        [
            lambda attempt, error: 1 / 0,
            lambda attempt, error: float("nan"),
            lambda attempt, error: float("inf"),
            lambda attempt, error: MAX_WAIT * 1.01,
            lambda attempt, error: None,
        ],
    )
    def test_a_policy_that_fails(self, backoff: Any, caplog: pytest.LogCaptureFixture) -> None:
        """Loudly, and the job waits a while; its own error is kept."""
        outcome = of_error(ValueError("own"), 1, None, RetryPolicy(3, backoff))
        assert (outcome.kind, outcome.after) == (OutcomeKind.RETRIED, POLICY_FAILED_DELAY)
        assert outcome.error_type == "ValueError"
        assert (outcome.error or "").startswith("own\n")
        assert "a retry policy failed" in caplog.text


class TestTexts:
    """What history keeps of an error."""

    def test_message_then_traceback(self) -> None:
        """The first line is for grouping."""
        try:
            raise ValueError("no such order")
        except ValueError as raised:
            error = of_error(raised, 1, None, POLICY).error or ""
        assert error.startswith("no such order\n\nTraceback (most recent call last):\n")
        assert "test_message_then_traceback" in error

    def test_causes_are_told(self) -> None:
        """All of them."""
        try:
            try:
                raise KeyError("inner")
            except KeyError as inner:
                raise ValueError("outer") from inner
        except ValueError as raised:
            error = of_error(raised, 1, None, POLICY).error or ""
        assert "KeyError: 'inner'" in error
        assert "direct cause" in error

    @pytest.mark.parametrize(
        "signal", [Retry(reason="r"), Snooze(reason="r"), Dead("r"), Cancel("r")]
    )
    def test_signals_have_no_traceback(self, signal: BaseException) -> None:
        """They are said, not suffered."""
        outcome = of_error(signal, 1, None, POLICY)
        assert (outcome.error, outcome.error_type) == ("r", type(signal).__name__)

    def test_types_by_their_full_name(self) -> None:
        """Those of Python and of ours are known without a module."""
        assert of_error(ValueError(), 1, None, POLICY).error_type == "ValueError"
        assert of_error(AttemptTimeout(), 1, None, POLICY).error_type == "AttemptTimeout"

        class Own(Exception):
            pass

        name = f"{__name__}.TestTexts.test_types_by_their_full_name.<locals>.Own"
        assert of_error(Own(), 1, None, POLICY).error_type == name

    def test_dead_by_decision(self) -> None:
        """With type and reason."""
        outcome = dead("InvalidArguments", "why \x00")
        assert (outcome.kind, outcome.error_type) == (OutcomeKind.DEAD, "InvalidArguments")
        assert outcome.error == "why \\x00"

    def test_short_texts_stay(self) -> None:
        """To the character."""
        text = "é" * MAX_ERROR_TEXT
        assert shortened(text) == text
        assert len(shortened(text + "x")) <= MAX_ERROR_TEXT

    @given(st.text(st.characters(exclude_categories=[]), max_size=200), st.integers(0, 300))
    def test_any_text_can_be_stored(self, text: str, repeat: int) -> None:
        """Whatever it holds, and however long: every database takes it."""
        stored = shortened(text * repeat)
        assert len(stored) <= MAX_ERROR_TEXT
        assert "\x00" not in stored
        stored.encode()

    def test_head_and_tail_are_kept(self) -> None:
        """With how much is missing in between."""
        stored = shortened("head" + "x" * 1_000_000 + "tail")
        assert stored.startswith("headx")
        assert stored.endswith("xtail")
        left_out = 1_000_008 - stored.count("x") - len("headtail")
        assert f"… {left_out:,} characters left out …" in stored
