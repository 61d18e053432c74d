"""Videos are transcoded by workers that get them from SQS.

Some take a second and some a minute, some fail, and one hangs. The visibility of a message is short
and follows its work: what a killed worker had is done by others soon, and nothing is done twice
because it takes long. The queue keeps the order of each group, of which no job has one here: what
failed comes again as the same message, and each hand-out is an attempt.
"""

import asyncio
import json
import os
import time
from pathlib import Path

from mutirao import Job, Mutirao, Retry
from mutirao.transports.sqs import SQS

LOG = Path(os.environ["STUDIO_LOG"])
WORKER = int(os.environ.get("STUDIO_WORKER", "0"))
VISIBILITY = 5  # seconds
LONG = 60.0  # seconds

where = os.environ["STUDIO_SQS"]
sqs = SQS("studio-{queue}", fifo=True, endpoint_url=where, visibility=VISIBILITY, wait=1)
app = Mutirao("sqlite:///unused.db", transports={"video": sqs})


@app.task(queue="video", retry=Retry.fixed(20, interval=0), stall_timeout=3)
async def transcode(job: Job, video: int, seconds: float, trouble: str) -> None:
    """Work on a video for so long; once it meets its trouble."""
    meets = "" if has_met_trouble(video) else trouble
    note("began", video, job.attempt)
    try:
        if meets == "hangs":
            await asyncio.Event().wait()  # a decoder that waits for a frame that never comes
        lasts = {"fails": seconds / 2, "loses its worker": LONG}.get(meets, seconds)
        end = time.monotonic() + lasts
        while (left := end - time.monotonic()) > 0:
            job.alive()
            await asyncio.sleep(min(left, 0.5))
        if meets == "fails":
            raise ValueError("a broken frame")
    except BaseException as error:
        note(type(error).__name__, video, job.attempt)
        raise
    note("done", video, job.attempt)


def has_met_trouble(video: int) -> bool:
    """Return whether the work on a video has ended with an error before, or with its worker."""
    lines = map(json.loads, LOG.read_text().splitlines())
    whats = [each["what"] for each in lines if each.get("video") == video]
    return bool({"ValueError", "CancelledError", "killed"}.intersection(whats))


def note(what: str, video: int, attempt: int, worker: int = WORKER) -> None:
    """Write a line for whoever counts afterwards."""
    told = {"what": what, "at": time.time(), "video": video, "attempt": attempt, "worker": worker}
    with LOG.open("a") as log:
        log.write(json.dumps(told) + "\n")
