"""The programs of the shop: commands of Django, its workers, whoever takes orders and counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.kit.workers import ROOT

OPTIONS = (
    *("--heartbeat", "0.5", "--expiry", "2.5", "--concurrency", "4", "--poll", "0.5"),
    *("--log-format", "json", "--log-level", "warning"),
)
COUNTING = ("-m", f"{__package__}.counting")
DJANGO = ("-m", "django")


class Shop:
    """The project on the database at `url`; what its workers say goes to the file `log`."""

    def __init__(self, url: str, log: Path) -> None:
        own = {"SHOP_URL": url, "DJANGO_SETTINGS_MODULE": f"{__package__}.shop_settings"}
        self._environment, self._log = os.environ | own, log

    def manage(self, *words: str) -> None:
        """Run a command of Django's; raise CalledProcessError if it fails."""
        self._run(*DJANGO, *words, to=None)

    def counted(self) -> dict[str, Any]:
        """Return what `counting.counted` says."""
        found: dict[str, Any] = json.loads(self._run(*COUNTING, "count", to=subprocess.PIPE))
        return found

    @contextmanager
    def taking(self, orders: int, refused: int) -> Iterator[subprocess.Popen[bytes]]:
        """Have orders taken meanwhile."""
        process = self._start(*COUNTING, "take", str(orders), str(refused))
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        return self._start(*DJANGO, "mutirao", "worker", *OPTIONS)

    def _run(self, *words: str, to: int | None) -> bytes:
        command = (sys.executable, *words)
        return subprocess.run(
            command, check=True, stdout=to, env=self._environment, cwd=ROOT
        ).stdout

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                (sys.executable, *words),
                env=self._environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C at the terminal is for us: we stop them
            )
