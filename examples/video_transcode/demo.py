"""The promise, shown: visibility follows the work, whatever becomes of it.

    python examples/video_transcode/demo.py [SECONDS]

Twenty videos of 1 to SECONDS (12) seconds of work, with a visibility of 5 seconds: a fifth of them
fail once, one hangs, and a worker is killed with SIGKILL at one that takes a minute. The server is
moto's, in a process of its own (`pip install 'moto[server]'`), which writes down when a message was
visible: what is held against the promise is not when somebody looked. Exit status 0: it held.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "programs"
VIDEOS, HANGS, KILLED = 20, 3, 4
WORKERS = 2
SOON = 1.0  # seconds in which what failed is visible, and what is done is deleted
KILLED_LIMIT = 10.0  # seconds in which what a killed worker had is visible
HUNG_LIMIT = 10.0  # seconds: its stall_timeout, and a cancellation
DEADLINE = 600.0  # seconds
TROUBLES = {"ValueError": "fails", "CancelledError": "hangs", "killed": "loses its worker"}
Line = dict[str, Any]


def trouble_of(video: int) -> str:
    """Return what the first attempt of a video meets."""
    if video in (HANGS, KILLED):
        return "hangs" if video == HANGS else "loses its worker"
    return "fails" if video % 5 == 0 else ""


def seconds_of(video: int, longest: float) -> float:
    """Return how long a video takes."""
    return 1 + (longest - 1) * (video * 7 % VIDEOS) / VIDEOS


def flaws(lines: list[Line]) -> list[str]:
    """Return which promises were broken, by what the broker and the handlers wrote down."""
    killed = next(each for each in lines if each["what"] == "killed")
    by_video: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        by_video[line["video"]].append(line)
    return [
        f"video {n} {flaw}" for n in range(VIDEOS) for flaw in _flaws_of(n, by_video[n], killed)
    ]


def _flaws_of(video: int, lines: list[Line], killed: Line) -> Iterator[str]:
    outs = sorted((each for each in lines if each["what"] == "handed out"), key=_when)
    done = 0
    for out, following in pairwise([*outs, None]):
        assert out is not None
        own = [each for each in lines if each["attempt"] == out["attempt"] and each is not killed]
        events = {each["what"]: each for each in sorted(own, key=_when)}
        lost = out["worker"] == killed["worker"] and not events.keys() & {"deleted", "given back"}
        done += "done" in events and not lost
        yield from _flaws_at_the_end(events, killed, lost=lost)
        if following is not None:
            yield from _flaws_of_repetition(trouble_of(video), events, killed, lost=lost)
    if done != 1:
        yield f"was done {done} times"
    met = {TROUBLES[each["what"]] for each in lines if each["what"] in TROUBLES}
    if (troubled := trouble_of(video)) and troubled not in met:
        yield "was to meet trouble, and did not"


def _flaws_at_the_end(events: dict[str, Line], killed: Line, *, lost: bool) -> Iterator[str]:
    """Look at the deletion of what is done, and at the cancellation of what hangs."""
    if "done" in events:
        # Nothing makes the end of the work and its deletion one: a kill between them repeats it.
        deleted = killed if lost else events.get("deleted", {"at": float("inf")})
        if (late := deleted["at"] - events["done"]["at"]) > SOON:
            yield f"was done, and deleted {late:.1f} s after"
    if "CancelledError" in events:
        hung = events["CancelledError"]["at"] - events["began"]["at"]
        if hung > HUNG_LIMIT:
            yield f"hung for {hung:.1f} s"


def _flaws_of_repetition(
    troubled: str, events: dict[str, Line], killed: Line, *, lost: bool
) -> Iterator[str]:
    """Look at why it was handed out again, and since when others could have it."""
    failed = next((each for what, each in events.items() if what in TROUBLES), None)
    if lost:
        began, limit = killed, KILLED_LIMIT
    elif failed is None or TROUBLES[failed["what"]] != troubled or "given back" not in events:
        yield "was handed out again, and nothing had happened to it"
        return
    else:
        began, limit = failed, SOON
    if (late := _visible_at(events) - began["at"]) > limit:
        yield f"was visible {late:.1f} s after its trouble"


def _visible_at(events: dict[str, Line]) -> float:
    return float([each for each in events.values() if "visible_at" in each][-1]["visible_at"])


def _when(line: Line) -> float:
    return float(line["at"])


def main() -> None:
    """Do it all, and count."""
    longest = float(sys.argv[1]) if len(sys.argv) > 1 else 12.0
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        log.touch()
        with server(log) as url:
            prepare(log, url)
            run(log, longest)
        lines = read(log)
    for flaw in (found := flaws(lines)):
        print("BROKEN:", flaw)
    again = sum(each["what"] == "handed out" for each in lines) - VIDEOS
    print(f"{VIDEOS} videos were done; {len(found)} promises broken; {again} attempts came again")
    sys.exit(bool(found))


def prepare(log: Path, url: str) -> None:
    """Tell this process and its workers where everything is."""
    os.environ |= {
        "STUDIO_LOG": str(log),
        "STUDIO_SQS": url,
        "PYTHONPATH": str(HERE),
        "AWS_ACCESS_KEY_ID": "demo",
        "AWS_SECRET_ACCESS_KEY": "demo",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    sys.path.insert(0, str(HERE))


def run(log: Path, longest: float) -> None:
    """Enqueue, work, kill one worker in the middle of a video, and wait for the others."""
    import studio

    asyncio.run(studio.sqs.declare(["video"]))
    studio.app.enqueue_many(
        [
            studio.transcode.job(video=n, seconds=seconds_of(n, longest), trouble=trouble_of(n))
            for n in range(VIDEOS)
        ]
    )
    studio.app.close()
    workers = [start_worker(n) for n in range(WORKERS)]
    try:
        until(lambda: _seen(log, HANGS, "given back"))
        victim = int(until(lambda: _seen(log, KILLED, "extended"))[-1]["worker"])
        workers[victim].kill()
        studio.note("killed", KILLED, 1, victim)
        print(f"worker {victim} is killed with SIGKILL at video {KILLED}")
        until(lambda: all(_seen(log, n, "deleted") for n in range(VIDEOS)))
    finally:
        for each in workers:
            each.terminate()
        for each in workers:
            each.wait()


def start_worker(number: int) -> subprocess.Popen[bytes]:
    """Start a worker with slots enough for all. boto3 tells the broker its number."""
    arguments = ["worker", "studio:app", "-q", "video", "-c", "20", "--log-level", "error"]
    own = {"STUDIO_WORKER": str(number), "AWS_SDK_UA_APP_ID": str(number)}
    return subprocess.Popen([sys.executable, "-m", "mutirao", *arguments], env=os.environ | own)


def read(log: Path) -> list[Line]:
    """Return what was written down."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def until(condition: Callable[[], Any]) -> Any:
    """Wait until something is true, and return it."""
    end = time.monotonic() + DEADLINE
    while not (answer := condition()):
        assert time.monotonic() < end, "it does not come to an end"
        time.sleep(0.1)
    return answer


@contextmanager
def server(log: Path) -> Iterator[str]:
    """Run moto's server."""
    command = [sys.executable, str(HERE / "broker.py"), str(log)]
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdout=pipe, stderr=quiet, text=True) as process:
        try:
            url = process.stdout.readline().strip() if process.stdout else ""
            assert url, "the server did not start"
            yield url
        finally:
            process.kill()


def _seen(log: Path, video: int, what: str) -> list[Line]:
    return [each for each in read(log) if (each["what"], each["video"]) == (what, video)]


if __name__ == "__main__":
    main()
