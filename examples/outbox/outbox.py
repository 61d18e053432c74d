"""An outbox of ActivityStreams: what happens to an object is told to each inbox that follows it.

    mutirao migrate outbox:app
    python outbox.py Create note-1 "Hello" http://localhost:8000/ann http://localhost:8000/bob
    python outbox.py Update note-1 "Hello, all" http://localhost:8000/ann http://localhost:8000/bob
    mutirao worker outbox:app     # as often as you like, on as many machines

OUTBOX_DATABASE says where. A delivery is a job of the key (inbox, object): in order, one at a time,
and what a newer one makes redundant is not sent. An inbox that is slow or down is in nobody's way.
"""

import json
import os
import sys
from collections.abc import Iterable
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from mutirao import Dead, Limit, Mutirao, Retry, Supersede

DATABASE = os.environ.get("OUTBOX_DATABASE", "sqlite:///outbox.db")
ANSWERS_WITHIN = 5.0  # seconds
GONE = (404, 410)

app = Mutirao(DATABASE)


class NotDelivered(Exception):
    """An inbox has not taken an activity; the message begins with the status, 408 for no answer."""


@app.task(
    supersede=Supersede.activities(by="type", drop_repeated=True),
    retry=Retry.exponential(100, base=0.2, factor=2, maximum=2.0),  # seconds; yours may be hours
    limit=Limit(2, by="inbox"),
    fair_by="inbox",
    timeout=2 * ANSWERS_WITHIN,
)
def deliver(type: str, object: str, content: str, inbox: str) -> None:
    """Send an activity to an inbox."""
    activity = {"type": type, "object": object, "content": content}
    body = json.dumps(activity).encode()
    request = Request(inbox, body, {"Content-Type": "application/activity+json"})  # noqa: S310
    try:
        urlopen(request, timeout=ANSWERS_WITHIN).close()  # noqa: S310
    except HTTPError as refused:
        refuse(refused)
    except (URLError, TimeoutError, ConnectionError) as silence:
        raise NotDelivered(f"408 {inbox} did not answer: {silence}") from silence


def refuse(answer: HTTPError) -> None:
    """Say when to try again: never, when the inbox says so, or as the policy of the task has it."""
    said = f"{answer.code} {answer.reason}"
    if answer.code in GONE:
        raise Dead(said) from answer
    after = answer.headers.get("Retry-After", "")
    if after.isdigit():
        raise Retry(after=int(after), reason=said) from answer
    raise NotDelivered(said) from answer


def publish(type: str, object: str, contents: Iterable[str], inboxes: Iterable[str]) -> None:
    """Tell all inboxes what has happened to an object, in the order in which it did."""
    told = [*inboxes]
    app.enqueue_many(
        deliver.using(key=f"{inbox} {object}").job(type, object, content, inbox)
        for content in contents
        for inbox in told
    )


if __name__ == "__main__":
    publish(sys.argv[1], sys.argv[2], sys.argv[3].split("|"), sys.argv[4:])
