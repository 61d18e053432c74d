"""A document goes through stages, and each worker serves one of them.

In a table of one's own a task has a column for its stage:

    SELECT id FROM task WHERE stage = 'read' AND status = 'new'
    LIMIT 1 FOR UPDATE SKIP LOCKED;

    UPDATE task SET stage = 'split', status = 'new' WHERE id = :id;

Here stages are steps of a graph, which is written as a whole and passes on what each step returned;
each stage has a queue, and so workers and figures of its own. A step that died stops its document
only.
"""

from mutirao import PREVIOUS, chain, step
from mutirao.testing import drain
from reindex import app, ask

STAGE = "SELECT stage, state FROM mutirao_graphs WHERE id = :id"


@app.task(name="stages.read", queue="read")
def read(document: int) -> str:
    """Return the text of a document."""
    return f"this is document {document}"


@app.task(name="stages.split", queue="split")
def split(text: str) -> list[str]:
    """Return the words of a text."""
    return text.split()


@app.task(name="stages.index", queue="index")
def index(words: list[str]) -> None:
    """Index the words."""
    print(f"{len(words)} words are indexed")


if __name__ == "__main__":
    stages = chain(
        step(read.job(7), stage="read"),
        step(split.job(PREVIOUS), stage="split"),
        step(index.job(PREVIOUS), stage="index"),
    )
    handle = app.enqueue_graph(stages, name="document 7")
    for queue in ("index", "read", "split", "index"):
        done = sum(drain(app, queues=[queue]).values())
        stage, state = ask(STAGE, id=handle.id)[0]
        print(f"the worker of {queue} did {done}: stage {stage}, {state}")
