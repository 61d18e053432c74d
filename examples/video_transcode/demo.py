"""The promise, shown: visibility follows the work, whatever becomes of it.

    python examples/video_transcode/demo.py [SECONDS]

Twenty videos of 1 to SECONDS (12) seconds of work, with a visibility of 5 seconds: a fifth of them
fail once, one hangs, and a worker is killed with SIGKILL. The server is moto's, in a process of its
own (`pip install 'moto[server]'`). STUDIO_SLOW=3 allows for a machine that is three times as slow.
Exit status 0: the promise held.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "programs"
VIDEOS, HANGS, KILLED = 20, 3, 4
FAILED_LIMIT, KILLED_LIMIT = 2.0, 10.0  # seconds; a message is visible < 1 s, its worker polls then
UNDELETED = 1.0  # seconds that a deletion may take
HUNG_LIMIT = 10.0  # seconds: its stall_timeout, and a cancellation
DEADLINE = 600.0  # seconds
SLOW = float(os.environ.get("STUDIO_SLOW", "1"))  # how much slower than usual the machine is
Line = dict[str, Any]


def trouble_of(video: int) -> str:
    """Return what the first attempt of a video meets."""
    if video == HANGS:
        return "hangs"
    return "fails" if video % 5 == 0 else ""


def seconds_of(video: int, longest: float) -> float:
    """Return how long a video takes."""
    return longest if video == KILLED else 1 + (longest - 1) * (video * 7 % VIDEOS) / VIDEOS


def flaws(lines: list[Line], slow: float = 1.0) -> list[str]:
    """Return which promises were broken, by what the handlers noted; `slow`: of the limits."""
    killed = next(each for each in lines if each["what"] == "killed")
    by_video: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        if line is not killed:
            by_video[line["video"]].append(line)
    return [flaw for n in range(VIDEOS) for flaw in _flaws_of(n, by_video[n], killed, slow)]


def _flaws_of(video: int, lines: list[Line], killed: Line, slow: float) -> Iterator[str]:
    done = [each for each in lines if each["what"] == "done"]
    # Nothing makes the end of the work and its deletion one: a kill between them repeats it.
    if len(done) > 1 and done[0]["pid"] == killed["pid"]:
        done = done[1:] if killed["at"] - done[0]["at"] < UNDELETED * slow else done
    if len(done) != 1:
        yield f"video {video} was done {len(done)} times"
    troubled = trouble_of(video)
    for began, following in pairwise([each for each in lines if each["what"] == "began"]):
        ends = [each for each in lines if began["at"] < each["at"] <= following["at"]]
        ended = next((each for each in ends if each["what"] not in ("began", "done")), None)
        if ended is None and began["pid"] == killed["pid"]:
            ended, limit = killed, KILLED_LIMIT
        elif ended is None or not troubled:
            yield f"video {video} began twice, and nothing had happened to it"
            continue
        else:
            limit = FAILED_LIMIT
        if (late := following["at"] - ended["at"]) > limit * slow:
            yield f"video {video} began again {late:.1f} s after its trouble"
        if troubled == "hangs" and ended["at"] - began["at"] > HUNG_LIMIT * slow:
            yield f"video {video} hung for {ended['at'] - began['at']:.1f} s"
    if troubled and len(lines) < 4:
        yield f"video {video} was to meet trouble, and did not"


def main() -> None:
    """Do it all, and count."""
    longest = float(sys.argv[1]) if len(sys.argv) > 1 else 12.0
    with tempfile.TemporaryDirectory() as directory, server() as url:
        log = Path(directory) / "log"
        log.touch()
        prepare(log, url)
        run(log, longest)
        lines = read(log)
    for flaw in (found := flaws(lines, SLOW)):
        print("BROKEN:", flaw)
    again = sum(each["what"] == "began" for each in lines) - VIDEOS
    print(f"{VIDEOS} videos were done; none twice without cause; {again} attempts came again")
    sys.exit(bool(found))


def prepare(log: Path, url: str) -> None:
    """Tell this process and its workers where everything is."""
    os.environ |= {
        "STUDIO_LOG": str(log),
        "STUDIO_PREFIX": "studio",
        "STUDIO_SQS": url,
        "PYTHONPATH": str(HERE),
        "AWS_ACCESS_KEY_ID": "demo",
        "AWS_SECRET_ACCESS_KEY": "demo",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    sys.path.insert(0, str(HERE))


def run(log: Path, longest: float) -> None:
    """Enqueue, work, kill one worker in the middle of a video, and wait for the others."""
    mutirao = (sys.executable, "-m", "mutirao")
    subprocess.run([*mutirao, "transports", "declare", "studio:app"], check=True)
    import studio

    studio.app.enqueue_many(
        [
            studio.transcode.job(video=n, seconds=seconds_of(n, longest), trouble=trouble_of(n))
            for n in range(VIDEOS)
        ]
    )
    studio.app.close()
    # Slots enough for all, so that what is visible begins at once.
    command = [*mutirao, "worker", "studio:app", "-q", "video", "-c", "20", "--log-level", "error"]
    workers = [subprocess.Popen(command) for _ in range(3)]
    try:
        victim = until(lambda: _pid_of(log, KILLED))
        time.sleep(min(2.0, longest / 3))
        os.kill(victim, signal.SIGKILL)
        studio.note("killed", KILLED, 1, victim)
        print(f"worker {victim} is killed with SIGKILL at video {KILLED}")
        until(lambda: _done(log) >= VIDEOS)
    finally:
        for each in workers:
            each.terminate()
        for each in workers:
            each.wait()


def read(log: Path) -> list[Line]:
    """Return what the handlers noted."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def until(condition: Callable[[], Any]) -> Any:
    """Wait until something is true, and return it."""
    end = time.monotonic() + DEADLINE
    while not (answer := condition()):
        assert time.monotonic() < end, "it does not come to an end"
        time.sleep(0.05)
    return answer


@contextmanager
def server() -> Iterator[str]:
    """Run moto's server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(url))
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{url}/moto-api/", timeout=5):  # noqa: S310
        return True
    return False


def _pid_of(log: Path, video: int) -> int:
    begun = [each for each in read(log) if (each["what"], each["video"]) == ("began", video)]
    return int(begun[0]["pid"]) if begun else 0


def _done(log: Path) -> int:
    return len({each["video"] for each in read(log) if each["what"] == "done"})


if __name__ == "__main__":
    main()
