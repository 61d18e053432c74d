"""Programs that are one script, and start workers: child processes do not run it once more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mutirao import JobRecord, JobState, Mutirao
from mutirao.model.jobs.records import JobFilter
from tests.support.waiting import DEADLINE

HEAD = """
import sys
from pathlib import Path
from mutirao import Mutirao
from mutirao.testing import drain
"""
TASK = """
app = Mutirao(sys.argv[1])

@app.task(process=True, max_attempts=1)
def work() -> None:
    Path("worked").touch()
"""
HARM = """
with Path("ran").open("a") as ran:
    ran.write("once ")
work.enqueue()
{act}
"""
GUARDED = """
if __name__ == "__main__":
    with Path("ran").open("a") as ran:
        ran.write("once ")
    work.enqueue()
    {act}
"""
ELSEWHERE = "from shop import app, work\n"
DRAIN = "drain(app)"
WORK = "app.run_worker()"
ADVICE = "put what that starts under `if __name__ == \"__main__\":`, or 'work' into a module of its"


@pytest.fixture
def url(lite_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return lite_url


def run(directory: Path, app: Mutirao, script: str, *how: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a directory, beside a module of tasks."""
    (directory / "shop.py").write_text(HEAD + TASK)
    (directory / "script.py").write_text(HEAD + script)
    command = [sys.executable, *(how or ("script.py",)), str(app.url)]
    ended = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=DEADLINE)
    assert (directory / "ran").read_text() == "once "
    return ended


async def only_job(app: Mutirao) -> JobRecord:
    """Return the job that the script has made, which is one."""
    [job] = await app.store.jobs(JobFilter(limit=None))
    return await app.ajob(job.id)


async def test_a_script_that_would_do_harm(app: Mutirao, tmp_path: Path) -> None:
    """Runs once; the error of its job says what to do."""
    run(tmp_path, app, TASK + HARM.format(act=DRAIN))
    job = await only_job(app)
    assert job.state is JobState.DEAD
    assert ADVICE in (job.attempts[0].error or "")


async def test_a_worker_in_such_a_script(app: Mutirao, tmp_path: Path) -> None:
    """Does not start, with the same words; the job waits."""
    ended = run(tmp_path, app, TASK + HARM.format(act=WORK))
    assert ended.returncode != 0
    assert ADVICE in ended.stderr
    job = await only_job(app)
    assert job.state is JobState.READY


@pytest.mark.parametrize(
    ("script", "how"),
    [
        pytest.param(ELSEWHERE + HARM.format(act=DRAIN), ["script.py"], id="task in a module"),
        pytest.param(TASK + GUARDED.format(act=DRAIN), ["script.py"], id="guard"),
        pytest.param(TASK + GUARDED.format(act=DRAIN), ["-m", "script"], id="guard, as module"),
    ],
)
async def test_scripts_that_work(app: Mutirao, tmp_path: Path, script: str, how: list[str]) -> None:
    """They run once, and so does the job."""
    run(tmp_path, app, script, *how)
    job = await only_job(app)
    assert job.state is JobState.SUCCEEDED
    assert (tmp_path / "worked").exists()
