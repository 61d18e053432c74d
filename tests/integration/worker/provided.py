"""Tasks that are given what a factory in another module provides.

Child processes import this module only. The application has no database of its own: tests register
its tasks with theirs.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from mutirao import PROVIDED, Mutirao, Retry

app = Mutirao("sqlite:///never-opened.db")


@dataclass
class Notes:
    """A file, and who writes in it."""

    path: str
    attempt: int

    def add(self, what: str) -> None:
        """Add a line: who says what."""
        with Path(self.path).open("a") as file:
            file.write(f"{os.getpid()} {threading.get_ident()} {what} {self.attempt}\n")


@dataclass
class Session:
    """What needs to be closed."""

    notes: Notes
    opened: list[str] = field(default_factory=list)


@app.task(process=True, retry=Retry.fixed(2, interval=0))
def in_process(path: str, fails: bool, *, session: Session = PROVIDED) -> str:
    """Fail once, if told to."""
    session.notes.add("handler")
    if fails and session.notes.attempt == 1:
        raise ValueError("itself")
    return path


@app.task(retry=Retry.fixed(2, interval=0))
def in_thread(path: str, fails: bool, *, session: Session = PROVIDED) -> str:
    """Do the same in a thread."""
    return in_process(path, fails, session=session)


@app.task(retry=Retry.fixed(2, interval=0))
async def in_loop(path: str, fails: bool, *, session: Session = PROVIDED) -> str:
    """Do the same in the event loop."""
    return in_process(path, fails, session=session)
