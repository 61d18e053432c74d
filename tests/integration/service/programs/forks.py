"""A program that forks while its worker runs: `forks URL [idle]`.

The child enqueues, starts a worker of its own, runs a job in it and ends, unless it is to stay
idle; its parent goes on. SQLite's library forbids a child to use a file that was open at the fork.
"""

from __future__ import annotations

import os
import sys
import threading

from mutirao import Mutirao
from tests.integration.service.programs.child_process import run_in_child
from tests.support.waiting import wait_until

app = Mutirao(sys.argv[1])
idle = sys.argv[2:] == ["idle"]
parents, children = threading.Event(), threading.Event()
parent = os.getpid()


@app.task(queue="parent")
def of_parent(text: str) -> None:
    """Run in the parent, whoever enqueued it."""
    assert os.getpid() == parent
    parents.set()


@app.task(queue="child")
def of_child() -> None:
    """Run in the child."""
    assert os.getpid() != parent
    children.set()


def child() -> None:
    """What the child does."""
    assert not worker.running
    worker.stop()  # not ours: nothing happens
    if idle:
        return
    with app.worker(queues=["child"], poll=60):
        of_child.enqueue()
        assert children.wait(100)
    of_parent.enqueue("from the child")


worker = app.worker(queues=["parent"], poll=60)
worker.start()
of_parent.enqueue("before")
assert parents.wait(100)
assert app.counts()
parents.clear()

run_in_child(child)
if not idle:
    assert parents.wait(100)
    parents.clear()
assert worker.running
of_parent.enqueue("after")
assert parents.wait(100)
jobs = 2 if idle else 4
wait_until(lambda: sum(count.jobs for count in app.counts() if count.state == "succeeded") == jobs)
worker.stop()
app.close()
print("all is well")
