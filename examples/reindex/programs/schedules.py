"""Each document has a period of its own, which changes while all run; no period drifts.

In a table of one's own a worker that takes a task that is due moves it by its period:

    UPDATE task SET next_run = next_run + period WHERE id = (
        SELECT id FROM task WHERE next_run <= now() ORDER BY next_run
        LIMIT 1 FOR UPDATE SKIP LOCKED
    ) RETURNING id;

Here each row of the application may have a schedule. Its ticks are counted from one another, and
each makes a job, which can fail, be tried again and be late, without moving the next tick.
"""

import sys
import time
from datetime import datetime
from itertools import pairwise

from mutirao import Job
from reindex import app

DOCUMENTS = {1: 1, 2: 2, 3: 3_600}  # by id: seconds between two runs
DEADLINE = 100.0  # seconds

ticks: dict[int, list[datetime]] = {document: [] for document in DOCUMENTS}


@app.task(name="schedules.index")
def index(job: Job, document: int) -> None:
    """Note the tick."""
    ticks[document].append(datetime.fromisoformat(job.metadata["tick"]))


if __name__ == "__main__":
    for document, period in DOCUMENTS.items():
        app.schedules.put(f"document-{document}", index.job(document), every=period, catch_up="all")
    app.schedules.change("document-3", every=1)
    end = time.monotonic() + DEADLINE
    with app.worker(heartbeat=0.5):
        while any(len(of) < 3 for of in ticks.values()):
            if time.monotonic() > end:
                sys.exit(f"the documents did not run three times within {DEADLINE:.0f} s")
            time.sleep(0.05)
    for document, of in ticks.items():
        app.schedules.remove(f"document-{document}")
        periods = {(later - earlier).total_seconds() for earlier, later in pairwise(sorted(of))}
        print(f"document {document}: {sorted(periods)} s apart")
