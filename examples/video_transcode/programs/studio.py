"""Videos are transcoded by workers that get them from SQS.

Some take a second and some a minute, some fail, and one hangs. The visibility of a message is short
and follows its work: what a killed worker had is done by others soon, and nothing is done twice
because it takes long.
"""

import asyncio
import json
import os
import time
from pathlib import Path

from mutirao import Job, Mutirao, Retry
from mutirao.transports.sqs import SQS

LOG = Path(os.environ["STUDIO_LOG"])
VISIBILITY = 5  # seconds

sqs = SQS(
    os.environ["STUDIO_PREFIX"] + "-{queue}",
    endpoint_url=os.environ.get("STUDIO_SQS"),
    visibility=VISIBILITY,
    wait=1,
)
app = Mutirao("sqlite:///unused.db", transports={"video": sqs})


@app.task(queue="video", retry=Retry.fixed(20, interval=0), stall_timeout=3)
async def transcode(job: Job, video: int, seconds: float, trouble: str) -> None:
    """Work on a video for so long; once it meets its trouble."""
    met = has_met_trouble(video)
    note("began", video, job.attempt)
    try:
        if trouble == "hangs" and not met:
            await asyncio.Event().wait()  # a decoder that waits for a frame that never comes
        end = time.monotonic() + (seconds / 2 if trouble == "fails" else seconds)
        while (left := end - time.monotonic()) > 0:
            job.alive()
            await asyncio.sleep(min(left, 0.5))
        if trouble == "fails" and not met:
            raise ValueError("a broken frame")
    except BaseException as error:
        note(type(error).__name__, video, job.attempt)
        raise
    note("done", video, job.attempt)


def has_met_trouble(video: int) -> bool:
    """Return whether the work on a video has ended with an error before."""
    lines = map(json.loads, LOG.read_text().splitlines())
    ends = [each["what"] for each in lines if each["video"] == video]
    return bool(set(ends) - {"began", "done", "killed"})


def note(what: str, video: int, attempt: int, pid: int | None = None) -> None:
    """Write a line for whoever counts afterwards."""
    told = {"what": what, "video": video, "attempt": attempt, "pid": pid or os.getpid()}
    line = json.dumps({"at": time.time(), **told})
    with LOG.open("a") as log:
        log.write(line + "\n")
