"""A search index that follows its documents, without a run for every edit.

    mutirao migrate search:app
    python search.py tables 20
    mutirao worker search:app     # as often as you like, on as many machines
    python search.py edit 20 300  # 20 documents, 300 edits

SEARCH_DATABASE says where. A document that is edited is indexed once it has been quiet for a while,
and while it never is, every so often; never twice at the same time.
"""

import asyncio
import os
import random
import sys
import time

from sqlalchemy import Double, create_engine, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from mutirao import Job, Mutirao

DATABASE = os.environ.get("SEARCH_DATABASE", "sqlite:///search.db")
QUIET, LONGEST_WAIT = 0.3, 1.0  # seconds; in earnest a few more
WORK = 0.2  # seconds that indexing takes
PACE = 0.01  # seconds between two edits
BUSY = 1  # the document that is hardly ever quiet

app = Mutirao(DATABASE)


class Base(DeclarativeBase):
    """The tables of the search; Mutirão's are made by `mutirao migrate`."""


class Document(Base):
    """A document, as it was edited last."""

    __tablename__ = "search_document"
    id: Mapped[int] = mapped_column(primary_key=True)
    version: Mapped[int]


class Indexed(Base):
    """A run of the indexer: which version it found, and when. Seconds since 1970."""

    __tablename__ = "search_indexed"
    id: Mapped[int] = mapped_column(primary_key=True)
    document: Mapped[int]
    version: Mapped[int]
    began: Mapped[float] = mapped_column(Double)
    ended: Mapped[float] = mapped_column(Double)


@app.task(on_conflict="replace", debounce_limit=LONGEST_WAIT)
async def index(job: Job, document: int, version: int) -> None:
    """Index a document; the run is written in the commit that completes the job."""
    began = time.time()
    await asyncio.sleep(WORK)  # an index is elsewhere, and slow
    async with job.transaction() as session:
        ended = time.time()
        session.add(Indexed(document=document, version=version, began=began, ended=ended))


def make_tables(documents: int) -> None:
    """Make the tables, and documents that nobody has edited."""
    engine = create_engine(DATABASE)
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add_all(Document(id=id, version=0) for id in range(1, documents + 1))


def save(session: Session, id: int) -> None:
    """Edit a document, and have it indexed: both, or none, when the session commits."""
    session.execute(update(Document).where(Document.id == id).values(version=Document.version + 1))
    version = session.get_one(Document, id, populate_existing=True).version
    index.using(conn=session, key=f"document-{id}", delay=QUIET).enqueue(id, version)


def edit(documents: int, edits: int) -> None:
    """Edit one document again and again, and others now and then."""
    engine = create_engine(DATABASE)
    for _ in range(edits):
        chosen = BUSY if random.random() < 0.5 else random.randint(1, documents)
        with Session(engine) as session, session.begin():
            save(session, chosen)
        time.sleep(PACE)


if __name__ == "__main__":
    order, *numbers = sys.argv[1:]
    if order == "tables":
        make_tables(*map(int, numbers))
    else:
        edit(*map(int, numbers))
