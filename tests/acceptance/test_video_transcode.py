"""The example of videos on SQS keeps its promise, and would say if it did not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.support.examples import EXAMPLES, demo_module

KILLED_AT = 50.0
VICTIM = 1  # the worker that is killed
Line = dict[str, Any]


@pytest.mark.repeats(decided="tests/integration/worker")
def test_each_video_is_done() -> None:
    """Though some fail, one hangs, and a worker is killed."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "video_transcode" / "demo.py", "2"],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is killed with SIGKILL" in done.stdout
    assert "20 videos were done; 0 promises broken" in done.stdout


def noted(what: str, at: float, attempt: int = 1, worker: int = 0, **more: float) -> Line:
    """Return a line of a handler or of the broker."""
    return {"what": what, "at": at, "attempt": attempt, "worker": worker, **more}


def handed_out(at: float, attempt: int = 1, worker: int = 0) -> list[Line]:
    """Return what is written down when a handler begins."""
    out = noted("handed out", at, attempt, worker, visible_at=at + 5)
    return [out, noted("began", at, attempt, worker)]


def finished(at: float, attempt: int = 1, worker: int = 0, late: float = 0.2) -> list[Line]:
    """Return what is written down of a video that is done."""
    return [noted("done", at, attempt, worker), noted("deleted", at + late, attempt, worker)]


def given_back(what: str, at: float, late: float = 0.1) -> list[Line]:
    """Return what is written down of one that ended with an error."""
    return [noted(what, at), noted("given back", at + late, visible_at=at + late)]


def as_it_should_be(trouble: str) -> list[Line]:
    """Return what is written down of a video."""
    if not trouble:
        return [*handed_out(40), *finished(45)]
    if trouble == "loses its worker":
        held = noted("extended", 48, worker=VICTIM, visible_at=53)
        killed = noted("killed", KILLED_AT, worker=VICTIM)
        return [*handed_out(44, 1, VICTIM), held, killed, *handed_out(54, 2), *finished(55, 2)]
    ended = given_back({"fails": "ValueError", "hangs": "CancelledError"}[trouble], 43)
    return [*handed_out(40), *ended, *handed_out(43.2, 2), *finished(46, 2)]


@pytest.mark.parametrize(
    ("video", "lines", "expected"),
    [
        (1, None, []),
        (1, [], ["was done 0 times"]),
        (1, [*handed_out(40), *finished(45, late=2)], ["was done, and deleted 2.0 s after"]),
        (1, [*handed_out(40), noted("done", 45)], ["was done, and deleted inf s after"]),
        (1, [*handed_out(40), *handed_out(45, 2), *finished(46, 2)],
         ["was handed out again, and nothing had happened to it"]),
        (1, [*handed_out(40), *finished(41), *handed_out(41, 2), *finished(42, 2)],
         ["was handed out again, and nothing had happened to it", "was done 2 times"]),
        (1, [*handed_out(40), *given_back("ValueError", 42), *handed_out(43, 2), *finished(44, 2)],
         ["was handed out again, and nothing had happened to it"]),
        (1, [*handed_out(47, 1, VICTIM), *handed_out(53, 2), *finished(54, 2)], []),
        (1, [*handed_out(47, 1, VICTIM), noted("done", 49.5, 1, VICTIM), *handed_out(53, 2),
             *finished(54, 2)], []),
        (1, [*handed_out(47, 1, VICTIM), noted("done", 48, 1, VICTIM), *handed_out(53, 2),
             *finished(54, 2)], ["was done, and deleted 2.0 s after"]),
        (1, [*handed_out(47, 1, VICTIM), noted("extended", 49, 1, VICTIM, visible_at=61),
             *handed_out(62, 2), *finished(63, 2)], ["was visible 11.0 s after its trouble"]),
        (3, [*handed_out(40), *given_back("CancelledError", 55), *handed_out(56, 2),
             *finished(57, 2)], ["hung for 15.0 s"]),
        (5, [*handed_out(40), *finished(41)], ["was to meet trouble, and did not"]),
        (5, [*handed_out(40), *given_back("ValueError", 42, late=1.5), *handed_out(44, 2),
             *finished(45, 2)], ["was visible 1.5 s after its trouble"]),
        (5, [*handed_out(40), noted("ValueError", 42), *handed_out(45, 2), *finished(46, 2)],
         ["was handed out again, and nothing had happened to it"]),
    ],
)  # fmt: skip
def test_a_broken_promise_is_told(
    video: int, lines: list[Line] | None, expected: list[str]
) -> None:
    """The verdict sees what is missing, double, late, or did not happen."""
    demo = demo_module("video_transcode")
    of = {n: as_it_should_be(demo.trouble_of(n)) for n in range(demo.VIDEOS)}
    of[video] = of[video] if lines is None else lines
    written = [{**each, "video": n} for n, some in of.items() for each in some]
    assert demo.flaws(written) == [f"video {video} {each}" for each in expected]
