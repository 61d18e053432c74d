"""A machine's options are the fields of its plan, and its end tells whether all was as promised."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.kit.databases import Database, server_of
from tests.faults.kit.program import SHOWN, end_with, parser_of, verdict


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to happen.

    Parameters:
        seed: of all that is
            random, 100 % of it.
        least, most: seconds.
        carried: whether a broker carries the jobs.
    """

    database: Database = "postgresql"
    seed: int = 1
    least: float = 0.5
    most: float = 2.0
    carried: bool = False
    leave_out: tuple[str, ...] = ()


def test_options_are_the_fields_of_a_plan(tmp_path: Path) -> None:
    """With their types; a directory for logs is made."""
    parser = parser_of("tests.faults.x", Plan, logs="what is said")
    words = ["--seed", "7", "--most", "9", "--carried", "--leave-out", "a,b", "--logs"]
    given = vars(parser.parse_args([*words, f"{tmp_path}/new"]))
    assert (given.pop("logs"), (tmp_path / "new").is_dir()) == (tmp_path / "new", True)
    assert Plan(**given) == Plan(seed=7, most=9.0, carried=True, leave_out=("a", "b"))
    assert vars(parser.parse_args([]))["database"] == "postgresql"


def test_help_says_what_the_plan_says() -> None:
    """Each option with the text of its parameter, over several lines too, and its default."""
    parser = parser_of("tests.faults.x", Plan)
    parser.set_defaults(most=3.5)  # by the command, of a longer run
    told = " ".join(parser.format_help().split())
    assert "usage: python -m tests.faults.x " in told
    assert "--seed SEED of all that is random, 100 % of it (1)" in told
    assert "--least LEAST seconds (0.5)" in told
    assert "--most MOST seconds (3.5)" in told
    assert "--database {postgresql,mysql,real-mysql,sqlite}" in told


def test_a_verdict_is_told_and_returned(capsys: pytest.CaptureFixture[str]) -> None:
    """Figures, then findings, of which many are not all shown; the last line counts them."""
    assert verdict(["7 jobs"], []) == 0
    assert capsys.readouterr().out == "7 jobs\neverything as promised\n"
    assert verdict([], (f"job {n} is lost" for n in range(SHOWN + 2))) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "NOT AS PROMISED: job 0 is lost"
    assert said[SHOWN:] == ["and 2 more", f"{SHOWN + 2} findings"]


def test_sigterm_ends_a_program_in_order() -> None:
    """Its workers and servers are ended on the way, as at Ctrl-C."""
    before, ended = signal.getsignal(signal.SIGTERM), []

    def main() -> int:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            ended.append("workers")
        return 0

    try:
        with pytest.raises(KeyboardInterrupt):
            end_with(main)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == ["workers"]


def test_a_file_has_no_server() -> None:
    """Whoever asks for it is told."""
    with pytest.raises(ValueError, match="sqlite has no server"):
        server_of("sqlite")
