"""A client of somebody's API: at most two calls at once for a tenant, and so many a second in all.

    mutirao migrate client:app
    python client.py enqueue 20   # calls for each tenant
    mutirao worker client:app     # as often as you like, on as many machines

CLIENT_DATABASE says where. The big tenant has ten times as many calls as the others; its calls
that have to wait are in nobody's way.
"""

import json
import os
import sys
import time
from pathlib import Path

from mutirao import Limit, Mutirao

DATABASE = os.environ.get("CLIENT_DATABASE", "sqlite:///client.db")
LOG = Path(os.environ.get("CLIENT_LOG", "calls.jsonl"))
TENANTS, BIG = ("acme", "globex", "initech"), "acme"
AT_ONCE = 2  # calls for a tenant
RATE, BURST = 40, 5  # calls that begin in a second, in all; and together after a rest
TAKES = 0.1  # seconds that the API takes

app = Mutirao(DATABASE)


@app.task(limit=[Limit(AT_ONCE, by="tenant"), Limit(RATE, per=1, burst=BURST)])
def call(tenant: str, number: int) -> None:
    """Call the API, and note when that began and ended."""
    began = time.time()
    time.sleep(TAKES)
    line = json.dumps({"tenant": tenant, "number": number, "began": began, "ended": time.time()})
    with LOG.open("a") as log:
        log.write(line + "\n")


def enqueue(calls: int) -> None:
    """Enqueue the calls of the big tenant first, then the others'."""
    app.enqueue_many(call.job(BIG, n) for n in range(10 * calls))
    app.enqueue_many(call.job(each, n) for each in TENANTS if each != BIG for n in range(calls))


if __name__ == "__main__":
    enqueue(int(sys.argv[2]))
