"""A report for every night, whatever happens in it.

    mutirao migrate nightly:app
    mutirao worker nightly:app     # as often as you like, on as many machines

NIGHTLY_DATABASE says where. NIGHTLY_CRON says when a night is over; a demonstration cannot wait.
"""

import os
from datetime import datetime

from sqlalchemy import DateTime, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mutirao import Job, Mutirao

DATABASE = os.environ.get("NIGHTLY_DATABASE", "sqlite:///nightly.db")
CRON = os.environ.get("NIGHTLY_CRON", "30 3 * * *")

app = Mutirao(DATABASE)


class Base(DeclarativeBase):
    """The tables of the reports; Mutirão's are made by `mutirao migrate`."""


class Report(Base):
    """A report that was written. Nothing in this table forbids a second one for the same night."""

    __tablename__ = "nightly_report"
    id: Mapped[int] = mapped_column(primary_key=True)
    night: Mapped[datetime] = mapped_column(DateTime(timezone=True))


@app.schedule(CRON, timezone="America/Sao_Paulo", name="nightly report", catch_up="all")
@app.task
async def write_report(job: Job) -> None:
    """Write the report of the night that the tick stands for, however late it is now."""
    night = datetime.fromisoformat(job.metadata["tick"])
    async with job.transaction() as session:  # the report and the job's completion: one commit
        session.add(Report(night=night))


def make_tables() -> None:
    """Make the table of the reports."""
    Base.metadata.create_all(create_engine(DATABASE))


if __name__ == "__main__":
    make_tables()
