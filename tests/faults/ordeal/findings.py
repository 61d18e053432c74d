"""What is not as promised: each thing told once, when it is found, with the trouble it came in."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import NamedTuple

from tests.faults.kit.program import Say


class Finding(NamedTuple):
    """Something that is not as promised. `trouble` is the last one that had begun."""

    trouble: str
    text: str


class Findings:
    """Gathers findings, from any thread, and says them."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._known: set[Hashable] = set()
        self.trouble = "start"
        self.all: list[Finding] = []

    def add(self, text: str, about: Hashable = None) -> None:
        """Tell a finding, unless one about the same was told before (None: the text itself)."""
        with self._lock:
            name = text if about is None else about
            if name in self._known:
                return
            self._known.add(name)
            self.all.append(Finding(self.trouble, text))
        self._say(f"NOT AS PROMISED ({self.trouble}): {text}")
