"""A real browser before a real dashboard: Debian's Chromium, and `mutirao web` as a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.binaries import find_chromium

ROOT = Path(__file__).parents[2]
LONG = 60_000  # ms that a busy machine may take for what a page shows; only a failure waits for it
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@contextmanager
def dashboard_of(file: Path, *options: str) -> Iterator[str]:
    """Serve the dashboard of the shop in a file until the end; yield its URL."""
    home = file.parent
    (home / "shop.py").write_text(
        "from tests.support.dashboard import application\n\n"
        f"app = application('sqlite:///{file.name}')\n"
    )
    command = [
        sys.executable,
        "-m",
        "mutirao",
        "web",
        "shop:app",
        "--bind",
        "127.0.0.1:0",
        *options,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=home, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            yield _address(process.stderr)
        finally:
            process.terminate()
            assert process.wait(30) == 0


def _address(said: IO[str]) -> str:
    lines = []
    for line in said:
        if found := _ADDRESS.search(line):
            return found[0]
        lines.append(line)
    raise AssertionError("".join(lines))


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield the browser. As root it has no sandbox, and it opens what the tests serve only."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        expect.set_options(timeout=LONG)
        yield browser
        browser.close()
