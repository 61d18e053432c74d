"""Priority is changed while jobs wait, and the order is right at once.

In a table of one's own that is a column, and the index by which tasks are taken:

    UPDATE task SET priority = -5 WHERE document = 3 AND status = 'new';

    SELECT id FROM task WHERE status = 'new' ORDER BY priority, id
    LIMIT 1 FOR UPDATE SKIP LOCKED;

Here it is `app.change`, or `mutirao change`. Jobs that run already are left alone.
"""

from mutirao.testing import drain
from reindex import app


@app.task(name="priority.index")
def index(document: int) -> None:
    """Index a document."""
    print(f"document {document} is indexed")


if __name__ == "__main__":
    for number in (1, 2, 3):
        index.enqueue(number)
    changed = app.change(where={"task": "priority.index", "args": {"document": 3}}, priority=-5)
    print(f"{len(changed)} job is more urgent now")
    drain(app)
