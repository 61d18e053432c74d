"""A document that is saved while it is indexed is indexed once more, as it was saved last.

In a table of one's own whoever saves a document, and the worker that has indexed it, write:

    INSERT INTO task (document, status, version) VALUES (:document, 'new', :version)
    ON CONFLICT (document) DO UPDATE SET version = excluded.version,
        status = CASE task.status WHEN 'running' THEN 'running' ELSE 'new' END
    WHERE task.version < excluded.version;

    UPDATE task SET status = CASE version WHEN :taken THEN 'done' ELSE 'new' END
    WHERE document = :document;

Here a key says what a job is about, and `version=` which update it is: an older one never takes the
place of a newer one, however late it comes.
"""

from mutirao.testing import drain
from reindex import app


@app.task(name="rerun.index", on_conflict="rerun")
def index(document: int, version: int) -> None:
    """Index a document; somebody saves it three times meanwhile, and one update comes late."""
    print(f"document {document} is indexed as of {version}")
    if version == 1:
        for later in (2, 4, 3):
            save(document, later)


def save(document: int, version: int) -> None:
    """Have a document indexed as it is now."""
    handle = index.using(key=f"document-{document}", version=version).enqueue(document, version)
    print(f"version {version}: {handle.how}")


if __name__ == "__main__":
    save(7, 1)
    drain(app)
    save(7, 3)
