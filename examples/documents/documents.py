"""Documents that are read, counted page by page, and published: three stages, one graph each.

    mutirao migrate documents:app
    python documents.py tables 6
    mutirao worker documents:app      # as often as you like, on as many machines
    python documents.py submit 6

DOCUMENTS_DATABASE says where. A document is published once all of its pages are counted. A page
that cannot be counted stops its document, not the others; once that is mended, `mutirao redrive`
goes on.
"""

import os
import sys
import time

from sqlalchemy import Double, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from mutirao import PREVIOUS, Dead, Job, Mutirao, chain, group, step

DATABASE = os.environ.get("DOCUMENTS_DATABASE", "sqlite:///documents.db")
PAGES = 5
WORK = 0.05  # seconds that a page takes

app = Mutirao(DATABASE)
engine = create_engine(DATABASE)


class Base(DeclarativeBase):
    """The tables of the documents; Mutirão's are made by `mutirao migrate`."""


class Document(Base):
    """A document, and whether one of its pages is smudged."""

    __tablename__ = "document"
    id: Mapped[int] = mapped_column(primary_key=True)
    smudged: Mapped[bool]


class Publication(Base):
    """What was published, and when. There may be several of a document, if something is wrong."""

    __tablename__ = "document_publication"
    id: Mapped[int] = mapped_column(primary_key=True)
    document: Mapped[int]
    words: Mapped[int]
    at: Mapped[float] = mapped_column(Double)


@app.task
def read(document: int) -> list[str]:
    """Return the pages of a document."""
    time.sleep(WORK)
    return [f"{document} " * (document + page) for page in range(PAGES)]


@app.task
def count(job: Job, document: int, pages: list[str], page: int) -> int:
    """Return the words of a page, unless that is smudged."""
    job.progress(0, of=1, note=f"page {page}")
    time.sleep(WORK)
    with Session(engine) as session:
        asked = select(Document.smudged).where(Document.id == document)
        if page == PAGES - 1 and session.scalars(asked).one():
            raise Dead(f"page {page} of document {document} is smudged")
    return len(pages[page].split())


@app.task
def publish(job: Job, document: int, words: list[int]) -> None:
    """Write what was counted, in the commit that completes the job."""
    with job.transaction() as session:
        session.add(Publication(document=document, words=sum(words), at=time.time()))


def submit(session: Session, document: int) -> None:
    """Have a document go through all stages: written with the session's commit, or never."""
    reading = step(read.job(document), stage="read")
    counting = group(
        step(count.job(document, reading.result, page), stage="count") for page in range(PAGES)
    )
    publishing = step(publish.job(document, PREVIOUS), stage="publish")
    name = f"document {document}"
    app.enqueue_graph(chain(reading, counting, publishing), name=name, conn=session)


def make_tables(documents: int) -> None:
    """Make the tables, and documents of which every third is smudged."""
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add_all(Document(id=id, smudged=id % 3 == 0) for id in range(1, documents + 1))


def submit_all(documents: int) -> None:
    """Submit every document, each in a transaction of its own."""
    for id in range(1, documents + 1):
        with Session(engine) as session, session.begin():
            submit(session, id)


if __name__ == "__main__":
    order, number = sys.argv[1], int(sys.argv[2])
    if order == "tables":
        make_tables(number)
    else:
        submit_all(number)
