"""A task that runs in child processes, which must be able to import it.

Its application has no database of its own: tests register it with theirs.
"""

from __future__ import annotations

from mutirao import Job, Mutirao

app = Mutirao("sqlite:///never-opened.db")


@app.task(process=True, keep_result=True)
def work(job: Job, many: int) -> dict[str, int]:
    """Tell often, and return what no other process has."""
    for done in range(many + 1):
        job.progress(done, of=many, note="working")
    return {"many": many}
