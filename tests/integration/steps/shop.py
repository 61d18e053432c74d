"""What a child process finds: an application whose tasks tell of their progress."""

from __future__ import annotations

import os

from mutirao import Job, Mutirao

app = Mutirao(os.environ.get("STEPS_DATABASE", "sqlite:///unused.db"))


@app.task(process=True, keep_result=True)
def work(job: Job, many: int) -> dict[str, int]:
    """Tell often, and return what no other process has."""
    for done in range(many + 1):
        job.progress(done, of=many, note="working")
    return {"many": many}
