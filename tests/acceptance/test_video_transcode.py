"""The example of videos on SQS keeps its promise, and would say if it did not."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.support.examples import EXAMPLES, demo_module

KILLED_AT = 50.0


def test_each_video_is_done() -> None:
    """Though some fail, one hangs, and a worker is killed."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / "video_transcode" / "demo.py", "4"],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, "STUDIO_SLOW": "4"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is killed with SIGKILL" in done.stdout
    assert "20 videos were done; none twice without cause" in done.stdout


def noted(what: str, video: int, at: float, pid: int = 1) -> dict[str, Any]:
    """Return a line of a handler."""
    return {"what": what, "video": video, "at": at, "attempt": 1, "pid": pid}


def as_it_should_be(video: int) -> list[dict[str, Any]]:
    """Return what is noted of a video."""
    demo = demo_module("video_transcode")
    if not (trouble := demo.trouble_of(video)):
        return [noted("began", video, 40.0), noted("done", video, 45.0)]
    lasts = 3.0 if trouble == "hangs" else 1.0
    told = [noted("began", video, 40.0), noted("CancelledError", video, 40.0 + lasts)]
    return [*told, noted("began", video, 41.0 + lasts), noted("done", video, 46.0)]


@pytest.mark.parametrize(
    ("video", "lines", "told"),
    [
        (1, None, []),
        (1, [], ["video 1 was done 0 times"]),
        (1, [noted("began", 1, 40.0), noted("began", 1, 41.0), noted("done", 1, 42.0)],
         ["video 1 began twice, and nothing had happened to it"]),
        (1, [noted("began", 1, 40.0, 7), noted("began", 1, 59.0), noted("done", 1, 60.0)], []),
        (1, [noted("began", 1, 40.0, 7), noted("began", 1, 61.0), noted("done", 1, 62.0)],
         ["video 1 began again 11.0 s after its trouble"]),
        (3, [noted("began", 3, 40.0), noted("CancelledError", 3, 55.0), noted("began", 3, 55.1),
             noted("done", 3, 56.0)], ["video 3 hung for 15.0 s"]),
        (5, [noted("began", 5, 40.0), noted("done", 5, 41.0)],
         ["video 5 was to meet trouble, and did not"]),
    ],
)  # fmt: skip
def test_a_broken_promise_is_told(
    video: int, lines: list[dict[str, Any]] | None, told: list[str]
) -> None:
    """The verdict sees what is missing, double, late, or did not happen."""
    demo = demo_module("video_transcode")
    killed = noted("killed", 4, KILLED_AT, 7)
    told_of = {n: as_it_should_be(n) for n in range(demo.VIDEOS)}
    told_of[video] = told_of[video] if lines is None else lines
    assert demo.flaws([killed, *(each for some in told_of.values() for each in some)]) == told
